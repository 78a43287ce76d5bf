#!/usr/bin/env python3
"""measured.py SECONDS MEGABYTES STATUS COMMAND… - run it; fail unless it ends in time, in so much memory, with STATUS."""
import resource
import subprocess
import sys

seconds, megabytes, status = map(int, sys.argv[1:4])
try:
    found = subprocess.run(sys.argv[4:], timeout=seconds, check=False).returncode
except subprocess.TimeoutExpired:
    sys.exit("it took more than %d s" % seconds)
used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
if used > megabytes:
    sys.exit("it took %d MB of memory" % used)
if found != status:
    sys.exit("it ended with %d, expected %d" % (found, status))
