# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""How long one run of parley or tshark may take: only a hang takes as long, on a slow machine too."""
LIMIT = 600  # seconds
