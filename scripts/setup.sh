#!/bin/sh
# Sets up everything in .venv, once: called by every target of the Makefile that needs it.
# First it checks what must come from the system and names what is absent, with the command.
set -eu
cd "$(dirname "$0")/.."
venv=.venv
stamp=$venv/.ready

missing=
absent() { # name, package of apt-get, package of dnf, formula of brew
    echo "missing: $1" >&2
    if command -v brew >/dev/null 2>&1; then missing="$missing $4"
    elif command -v dnf >/dev/null 2>&1; then missing="$missing $3"
    else missing="$missing $2"
    fi
}

python=
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14}; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    absent "Python 3.11 or newer" "python3 python3-venv" python3 python
elif ! "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then
    absent "Python's venv module" python3-venv python3 python
fi
command -v g++ >/dev/null 2>&1 || absent g++ g++ gcc-c++ gcc
command -v make >/dev/null 2>&1 || absent make make make make
command -v perl >/dev/null 2>&1 || absent perl perl perl perl
if [ -n "$missing" ]; then
    if command -v brew >/dev/null 2>&1; then install="brew install"
    elif command -v dnf >/dev/null 2>&1; then install="sudo dnf install"
    else install="sudo apt-get install"
    fi
    echo "install it with: $install$missing" >&2
    exit 3
fi

wanted=$(cat requirements.lock pyproject.toml | cksum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted $PWD" ] && "$venv/bin/python" -c '' 2>/dev/null; then
    exit 0
fi
echo "setting up .venv with $("$python" --version): about a minute, once"
"$python" -m venv --clear "$venv"
pip="$venv/bin/python -m pip --disable-pip-version-check install --quiet --no-deps"
$pip --requirement requirements.lock
$pip --no-build-isolation --editable .
# A browser without a screen, which runs the pages in tests and draws docs/*.svg. It is no dependency
# of an extra: some systems are too old for it, and their tests of pages are skipped.
$pip lightpanda==1.0.2 2>/dev/null || echo "no headless browser for this system; goes on without"
# Type checkers run no hook of an editable installation, but read paths.
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\n' "$PWD/hw" "$PWD/sim" "$PWD/tool" >"$site/diastole-sources.pth"
echo "$wanted $PWD" >"$stamp"
echo "set up"
