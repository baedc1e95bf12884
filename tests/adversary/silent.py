#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""A reader that finds no fault in anything, nor any connection: whoever holds it to the truth must say so."""
print('{"connections": []}')
