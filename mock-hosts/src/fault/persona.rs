//! Personas: named bundles of faults for use by hand.
