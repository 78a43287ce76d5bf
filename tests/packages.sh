# packages.sh - what cafka needs from a Debian machine, and its installation. Sourced by test.sh and demo.sh.
#
# A row is "NEED PACKAGE": NEED is a command, or a header under /usr/include (with a '/' or '.h'), or
# "py:MODULE" for Debian's own Python. Only packages whose need is not met are installed.

build_packages='
gcc gcc
g++ g++
make make
libc.h:stdlib.h libc6-dev
autoreconf autoconf
automake automake
libtoolize libtool
pkg-config pkg-config
python3 python3
openssl/ssl.h libssl-dev
zlib.h zlib1g-dev
lz4frame.h liblz4-dev
zstd.h libzstd-dev
snappy-c.h libsnappy-dev
cjson/cJSON.h libcjson-dev
cmocka.h libcmocka-dev
'

test_packages='
valgrind valgrind
kcat kcat
py:confluent_kafka python3-confluent-kafka
py:kafka python3-kafka
py:lz4 python3-lz4
py:snappy python3-snappy
py:zstandard python3-zstandard
curl curl
strace strace
uv.h libuv1-dev
javac default-jdk-headless
mvn maven
'

full_packages='
clang clang
clang-format clang-format
clang-tidy clang-tidy
cppcheck cppcheck
'

have() {
    case $1 in
    py:*) /usr/bin/python3 -c "import ${1#py:}" 2>/dev/null ;;
    *:*.h | *.h)
        [ -e "/usr/include/${1#*:}" ] || [ -e "/usr/include/$(uname -m)-linux-gnu/${1#*:}" ] ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

# need_packages "$list": install what is missing of the list; says what it installs, or nothing.
need_packages() {
    local need package missing=
    while read -r need package; do
        [ -n "$need" ] || continue
        have "$need" || missing="$missing $package"
    done <<<"$1"
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "missing:$missing (Debian's names; this machine has no apt-get, please install them)"
        return 1
    fi
    local as_root=
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null 2>&1 || {
            echo "missing:$missing; install them as root: apt-get install$missing"
            return 1
        }
        as_root=sudo
    fi
    echo "installing:$missing"
    if [ -z "${packages_updated:-}" ]; then
        $as_root apt-get update -qq </dev/null || return 1
        packages_updated=1
    fi
    # shellcheck disable=SC2086 # a list on purpose
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends \
        $missing </dev/null >/dev/null
}

# Apache Kafka's jars, for the tests with its own programs: where realkafka/run.sh keeps them.
have_kafka_jars() {
    ls "${KAFKA_LIBS:-${KAFKA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/realkafka}/${KAFKA_VERSION:-4.3.1}/libs}"/kafka_*.jar \
        >/dev/null 2>&1
}

# need_kafka_jars RUN.SH LOG: fetch them (from Maven Central) if they are not here.
need_kafka_jars() {
    have_kafka_jars || { [ -x "$1" ] && command -v mvn >/dev/null && "$1" fetch >"$2" 2>&1; }
}
