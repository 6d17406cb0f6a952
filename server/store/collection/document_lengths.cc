#include "server/store/collection/document_lengths.h"

#include <algorithm>

namespace maxsim::store {

DocumentLengths::DocumentLengths(absl::Span<const DocumentsView> parts) {
  if (parts.empty()) return;
  const int64_t first = parts.front().document_tokens;
  const auto is_alike = [&](const DocumentsView& part) { return part.document_tokens == first; };
  if (first > 0 && std::all_of(parts.begin(), parts.end(), is_alike)) {
    common_length_ = first;
    return;
  }
  size_t num_documents = 0;
  for (const DocumentsView& part : parts) num_documents += static_cast<size_t>(part.num_documents);
  lengths_minus_one_.reserve(num_documents);
  for (const DocumentsView& part : parts) {
    for (int64_t n = 0; n < part.num_documents; ++n) {
      lengths_minus_one_.push_back(static_cast<uint16_t>(part.offsets[n + 1] - part.offsets[n] - 1));
    }
  }
}

}  // namespace maxsim::store
