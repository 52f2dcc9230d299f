"""Sessions: a step that runs again and again on tensors that stay where they are computed."""

from meganeura_runtime.session.base import Outputs, Session, SessionError, Uploaded
from meganeura_runtime.session.choice import Choice, choose_device, model_of, require_device
from meganeura_runtime.session.cpu import CpuSession
from meganeura_runtime.session.gpu import GpuSession
from meganeura_runtime.session.indices import with_indices_checked
from meganeura_runtime.session.inference import InferenceSession, OpenSession, open_inference
from meganeura_runtime.session.pair import PairSession

__all__ = [
    "Choice",
    "CpuSession",
    "GpuSession",
    "InferenceSession",
    "OpenSession",
    "Outputs",
    "PairSession",
    "Session",
    "SessionError",
    "Uploaded",
    "choose_device",
    "model_of",
    "open_inference",
    "require_device",
    "with_indices_checked",
]
