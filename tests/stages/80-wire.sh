# Other people's programs (kcat, Python clients) and cafka's own over real sockets. Every
# tests/wire/*.sh is one case: run with BUILD set to the plain tree and WORK to an empty directory;
# exit 0 is well, 77 with a line "skipped: REASON" is skipped.
. tests/stages/cases.sh
run_cases tests/wire
