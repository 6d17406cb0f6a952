// Adds the origin to errors of the cluster's servers.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/error_details.h"

namespace maxsim::cluster {

// Returns the error with `origin` ("group a") before its message. If the error names a field, its message begins with
// the field, so `origin` goes to the end. Keeps the details.
inline absl::Status WithOrigin(const absl::Status& status, const std::string& origin) {
  if (client::FieldOf(status).empty()) return WithMessage(status, absl::StrCat(origin, ": ", status.message()));
  return client::WithAddition(status, absl::StrCat(" (", origin, ")"));
}

}  // namespace maxsim::cluster
