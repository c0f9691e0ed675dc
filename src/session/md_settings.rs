//! Settings of an array that advice depends on.

use crate::advice::slow::MdSettings;
use crate::machine::Sys;

/// Reads the settings of the array with this kernel name.
pub(super) fn read(sys: &Sys, array: &str) -> MdSettings {
    let value = |file: &str| sys.text(&format!("/sys/block/{array}/md/{file}"));
    MdSettings {
        safe_mode_delay: value("safe_mode_delay"),
        stripe_cache_size: value("stripe_cache_size"),
        sync_speed_max: value("sync_speed_max"),
        sync_speed_min: value("sync_speed_min"),
        sync_speed: value("sync_speed"),
    }
}
