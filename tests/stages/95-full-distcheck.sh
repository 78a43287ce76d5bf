# A tarball can be made, and what is in it builds, passes, installs and uninstalls.
make -C "$PLAIN" -j"$JOBS" distcheck
