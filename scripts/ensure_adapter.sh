#!/usr/bin/env bash
# Sees to it that wgpu can find an adapter: installs Mesa's software Vulkan (lavapipe) on a
# Debian or Ubuntu without any Vulkan driver. Where that is not possible it says so and succeeds,
# because everything but the wgpu device works without.
set -euo pipefail

has_vulkan() {
    PATH="$PATH:/usr/sbin:/sbin" ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1' || return 1
    [ -n "${VK_DRIVER_FILES:-${VK_ICD_FILENAMES:-}}" ] && return 0
    compgen -G '/usr/share/vulkan/icd.d/*.json' >/dev/null ||
        compgen -G '/usr/local/share/vulkan/icd.d/*.json' >/dev/null ||
        compgen -G '/etc/vulkan/icd.d/*.json' >/dev/null
}

# Other systems bring their own: Metal, Direct3D 12.
if [ "$(uname -s)" != Linux ] || has_vulkan; then
    exit 0
fi
scripts=$(dirname "${BASH_SOURCE[0]}")
if ! "$scripts/apt_install.sh" mesa-vulkan-drivers libvulkan1; then
    echo "No Vulkan driver could be installed: the wgpu device will be missing, the CPU trains." >&2
fi
