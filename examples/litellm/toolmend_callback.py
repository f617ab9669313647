"""The callback that config.yaml names: a policy of one's own, and telemetry for a proxy that has none."""

from __future__ import annotations

import toolmend
from toolmend.integrations.litellm import ToolmendCallback

toolmend.setup_telemetry(service_name="litellm")
callback = ToolmendCallback(policy=toolmend.Policy(language="en"))
