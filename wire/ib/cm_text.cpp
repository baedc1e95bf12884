// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/ib/cm.hpp"

namespace parley::wire::ib {

std::string_view to_string(CmMessageType type) {
  switch (type) {
#define PARLEY_X(name, attribute, structure, fields, text) \
  case CmMessageType::name: return text;
    PARLEY_IBCM_MESSAGES(PARLEY_X)
#undef PARLEY_X
  }
  return "unknown message";
}

std::string_view to_string(CmSubject about) {
  switch (about) {
#define PARLEY_X(name, value, text) \
  case CmSubject::name: return text;
    PARLEY_IBCM_ABOUT(PARLEY_X)
#undef PARLEY_X
  }
  return "unassigned";
}

std::string_view to_string(CmReject reason) {
  switch (reason) {
#define PARLEY_X(name, code, text) \
  case CmReject::name: return text;
    PARLEY_IBCM_REJECTS(PARLEY_X)
#undef PARLEY_X
  }
  return "unassigned reason";
}

std::string_view to_string(SidrStatus status) {
  switch (status) {
#define PARLEY_X(name, code, text) \
  case SidrStatus::name: return text;
    PARLEY_IBCM_SIDR_STATUS(PARLEY_X)
#undef PARLEY_X
  }
  return "unassigned status";
}

std::string_view to_string(ApStatus status) {
  switch (status) {
#define PARLEY_X(name, code, text) \
  case ApStatus::name: return text;
    PARLEY_IBCM_AP_STATUS(PARLEY_X)
#undef PARLEY_X
  }
  return "unassigned status";
}

}  // namespace parley::wire::ib
