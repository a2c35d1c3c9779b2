"""The reference page of the Python interface: Sphinx fills the page from docstrings."""

API = """\
# Python

The package `diastole` has the following names, and imports a name at the first use.

```{eval-rst}
.. autoclass:: diastole.GoldenDevice
   :members:
   :inherited-members:

.. autoclass:: diastole.Device
   :members:

.. autofunction:: diastole.quantise

.. autofunction:: diastole.dequantise

.. autofunction:: diastole.load_config

.. autoexception:: diastole.RoundedWarning
```
"""
