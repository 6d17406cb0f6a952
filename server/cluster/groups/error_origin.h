// Errors of the cluster's servers, with what they come from.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/error_details.h"

namespace maxsim::cluster {

// Returns the error with `origin` ("group a") before its message or, if it has a field, after it: such a message begins
// with the field. Details stay.
inline absl::Status WithOrigin(const absl::Status& status, const std::string& origin) {
  if (client::FieldOf(status).empty()) return WithMessage(status, absl::StrCat(origin, ": ", status.message()));
  return client::WithAddition(status, absl::StrCat(" (", origin, ")"));
}

}  // namespace maxsim::cluster
