"""The reference adapters as torch.compile finds them: `backend="torchport_integrated_mock"`."""

from torchport.debug.adapters.integrated import IntegratedMockAdapter
from torchport.debug.adapters.mock import MockAcceleratorAdapter

torchport_mock_accelerator = MockAcceleratorAdapter()
torchport_integrated_mock = IntegratedMockAdapter()
