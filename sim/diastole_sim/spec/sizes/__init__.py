"""Sizes of a machine in integers, common to hardware, model, manifest and driver."""
