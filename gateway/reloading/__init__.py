"""Files and documents whose content changes while the gateway runs."""
