"""Cost models of adapters, before they are opened."""

from dataclasses import replace

from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE, GPU, SOFTWARE, DeviceModel
from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.webgpu.device import adapters


def cost_model(name: str) -> DeviceModel:
    """The model of the adapters that `wgpu` or `wgpu:N` may mean, real GPUs before software."""
    try:
        api = adapters.api_of(name)
        infos = adapters.list_devices(api)
    except DeviceError:
        return DEFAULT_DEVICE
    meant = [info for info in infos if name in (api.name, info.selector)]
    largest = [info.largest for info in meant if not info.is_software]
    if largest:
        return replace(GPU, largest=min(largest))
    return SOFTWARE if meant else DEFAULT_DEVICE
