#include "server/store/collection/generation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "server/store/collection/filter_cache.h"

namespace maxsim::store {

namespace {

std::vector<DocumentsView> ViewsOf(const std::vector<Part>& parts) {
  std::vector<DocumentsView> views;
  views.reserve(parts.size());
  for (const Part& part : parts) views.push_back(part.view);
  return views;
}

std::vector<uint64_t> FirstOrdinals(const std::vector<Part>& parts) {
  std::vector<uint64_t> ordinals;
  ordinals.reserve(parts.size());
  for (const Part& part : parts) ordinals.push_back(part.first_ordinal);
  return ordinals;
}

bool AllIn(Residency tier, const std::vector<Part>& parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const Part& part) { return part.tier == tier; });
}

// Returns whether a scan copies at least half of the tokens to a GPU each time.
bool IsStreamed(const Generation::Contents& contents) {
  if (!contents.on_gpu) return false;
  int64_t num_tokens = 0, num_copied = 0;
  for (const Part& part : contents.parts) {
    num_tokens += part.num_tokens();
    if (part.tier != Residency::kGpu) num_copied += part.num_tokens();
  }
  return num_copied > 0 && num_copied >= num_tokens - num_copied;
}

int CodePlanes(const Generation::Contents& contents) {
  std::optional<int> planes;
  for (const Part& part : contents.parts) {
    if (part.num_documents() == 0) continue;
    planes = std::min(planes.value_or(part.code_planes()), part.code_planes());
  }
  return planes.value_or(contents.code_planes);
}

}  // namespace

Generation::Generation(Contents contents)
    : contents_(std::move(contents)),
      fingerprint_(collection::FingerprintOf(contents_.manifest)),
      is_resident_(AllIn(contents_.on_gpu ? Residency::kGpu : Residency::kHost, contents_.parts)),
      is_streamed_(IsStreamed(contents_)),
      code_planes_(CodePlanes(contents_)),
      first_ordinals_(FirstOrdinals(contents_.parts)),
      lengths_(ViewsOf(contents_.parts)),
      number_in_filter_cache_(contents_.filter_cache == nullptr ? 0 : contents_.filter_cache->AddGeneration()) {}

Generation::~Generation() {
  if (filter_cache() != nullptr) filter_cache()->DropGeneration(number_in_filter_cache_);
}

absl::Status Generation::Check() const {
  for (const Part& part : parts()) {
    if (absl::Status status = part.shard->Check(); !status.ok()) return status;
    if (part.codes == nullptr) continue;
    if (absl::Status status = part.codes->Check(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace maxsim::store
