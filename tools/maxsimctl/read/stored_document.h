// Documents as a server sends them, for people and as JSON.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "maxsim/v1/documents.pb.h"
#include "tools/maxsimctl/context/context.h"

namespace maxsim::ctl {

std::string StoredIdText(const v1::StoredDocument& document);

// Returns the values of the document's tokens, [num_tokens, dim]. INTERNAL if its data has another size.
absl::StatusOr<std::vector<float>> StoredValues(const v1::StoredDocument& document);

// Returns the document as an object, with "tokens" as rows of values if it has them. Errors are those of StoredValues.
absl::StatusOr<Json> StoredDocumentJson(const v1::StoredDocument& document);

}  // namespace maxsim::ctl
