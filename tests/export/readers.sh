#!/bin/bash
# The readers of exported weights, held against the C programs: tests/export/parity.py, where Python has NumPy. PYTHON
# is another one than python3.
set -u
. tests/training.sh
python=${PYTHON:-python3}
case ${CAST_MODE:-} in
asan | tsan) echo "ok # SKIP readers: they are the same in all builds, and slow beside this one" ;;
*)
    if "$python" -c 'import numpy' 2>/dev/null; then
        "$python" -B tests/export/parity.py "$bin" "$tmp"
        result $? "parity.py ends"
    else
        echo "ok # SKIP readers: there is no $python with NumPy (Debian: python3-numpy)"
    fi
    ;;
esac
