"""Numbers and time of Diastole: formats, the golden model, memory image, timing; no hardware."""
