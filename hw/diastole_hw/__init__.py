"""Hardware of Diastole: all code that becomes gates, and only this code."""
