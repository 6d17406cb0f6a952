// Checks fields that several requests of the Admin service have.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "collection/collection_name.h"
#include "server/service/call/status.h"
#include "server/store/memory/residency.h"

namespace maxsim::service {

// Parses the field `residency`; "" means auto.
inline absl::StatusOr<store::Residency> ParseResidency(const std::string& name) {
  const auto parsed = name.empty() ? std::optional(store::Residency::kAuto) : store::ResidencyFromName(name);
  if (parsed.has_value()) return *parsed;
  return InvalidField("residency", absl::StrCat("is \"", name, "\"; must be auto, gpu, host or disk"));
}

// Checks the field `name`.
inline absl::Status CheckName(const std::string& name) {
  const std::string problem = collection::CollectionNameProblem(name);
  return problem.empty() ? absl::OkStatus() : InvalidField("name", problem);
}

}  // namespace maxsim::service
