"""Record linkage without labels: agreement levels, the Fellegi-Sunter model and its estimation by EM."""
