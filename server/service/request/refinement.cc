#include "server/service/request/refinement.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/saturating.h"
#include "kernels/codes/scan.h"
#include "server/service/call/limits.h"
#include "server/service/call/status.h"

namespace maxsim::service {
namespace {

int64_t DocumentsOf(const v1::RefinementOptions& options, int64_t num_ranked) {
  if (options.documents() != 0) return options.documents();
  return DefaultRefinedDocuments(num_ranked);
}

}  // namespace

absl::Status CheckRefinement(const v1::RefinementOptions& options, int64_t num_ranked) {
  if (options.documents() != 0 && options.documents() < num_ranked) {
    return InvalidField("refinement.documents",
                        absl::StrCat("is ", options.documents(), "; must be at least offset + top_k, ", num_ranked));
  }
  if (options.budget() == 0) return absl::OkStatus();
  if (!options.require_proof()) {
    return InvalidField("refinement.budget",
                        absl::StrCat("is ", options.budget(), ", but no proof is required (refinement.require_proof)"));
  }
  if (options.budget() > kMaxScanResults) {
    return InvalidField("refinement.budget",
                        absl::StrCat("is ", options.budget(), "; must be at most ", kMaxScanResults),
                        {kMaxScanResults, options.budget()});
  }
  if (const int64_t documents = DocumentsOf(options, num_ranked); options.budget() < documents) {
    return InvalidField("refinement.budget",
                        absl::StrCat("is ", options.budget(), ", less than the documents to refine, ", documents));
  }
  return absl::OkStatus();
}

std::optional<uint64_t> GpuBytes(const store::Collection& collection, uint64_t num_documents) {
  if (!collection.generation().on_gpu() || !collection.is_resident()) return std::nullopt;
  const double share = static_cast<double>(num_documents) / static_cast<double>(collection.num_documents());
  const auto row_bytes = static_cast<double>(RowBytes(collection.storage(), collection.dim()));
  return static_cast<uint64_t>(share * static_cast<double>(collection.num_tokens()) * row_bytes);
}

absl::StatusOr<engine::RefinementOptions> RefinementFor(const v1::RefinementOptions& options, int64_t num_ranked,
                                                        uint64_t num_candidates, std::optional<uint64_t> gpu_bytes) {
  const int64_t documents = DocumentsOf(options, num_ranked);
  if (num_candidates <= static_cast<uint64_t>(documents)) return engine::RefinementOptions{};
  if (options.documents() == 0 && gpu_bytes.has_value() && *gpu_bytes <= kMaxScoredBytes) {
    return engine::RefinementOptions{};
  }
  if (documents > kMaxScanResults) {
    return InvalidField("refinement.documents",
                        absl::StrCat("is ", documents, "; must be at most ", kMaxScanResults, ", or all ",
                                     num_candidates, " candidates"),
                        {kMaxScanResults, documents});
  }
  engine::RefinementOptions converted{.documents = static_cast<int32_t>(documents),
                                      .require_proof = options.require_proof()};
  const int64_t budget = options.budget() != 0 ? options.budget() : documents * kBudgetFactor;
  if (converted.require_proof) {
    converted.budget = static_cast<int32_t>(std::min<int64_t>(budget, kMaxScanResults));
  }
  return converted;
}

void SetCertificate(bool proven, double last_score, v1::Refinement& refinement) {
  refinement.set_certificate(proven ? v1::CERTIFICATE_PROVEN : v1::CERTIFICATE_NOT_PROVEN);
  if (!refinement.has_outside_score()) return;
  constexpr auto kLargest = static_cast<double>(std::numeric_limits<float>::max());
  const double margin = last_score - static_cast<double>(refinement.outside_score());
  auto rounded = static_cast<float>(std::clamp(margin, -kLargest, kLargest));
  // The margin of a proof must be positive, even if it is rounded to 0.
  if (proven && !(rounded > 0)) rounded = std::numeric_limits<float>::denorm_min();
  refinement.set_margin(rounded);
}

void AddScan(const v1::Refinement& scan, v1::Refinement& sum) {
  sum.set_planes(std::min(sum.planes(), scan.planes()));
  sum.set_documents(SaturatingAdd(sum.documents(), scan.documents()));
  if (scan.certificate() != v1::CERTIFICATE_PROVEN) sum.set_certificate(v1::CERTIFICATE_NOT_PROVEN);
  if (!scan.has_outside_score()) return;
  if (!sum.has_outside_score()) {
    sum.set_margin(scan.margin());
    sum.set_outside_score(scan.outside_score());
    sum.set_outside_is_bound(scan.outside_is_bound());
    return;
  }
  sum.set_margin(std::min(sum.margin(), scan.margin()));
  sum.set_outside_score(std::max(sum.outside_score(), scan.outside_score()));
  sum.set_outside_is_bound(sum.outside_is_bound() && scan.outside_is_bound());
}

v1::Refinement ToWire(const engine::JobQueryResult& result, float divisor) {
  const engine::Refinement& from = *result.refinement;
  v1::Refinement refinement;
  refinement.set_planes(static_cast<uint32_t>(from.planes));
  refinement.set_documents(from.num_documents);
  refinement.set_outside_is_bound(from.outside_is_bound);
  constexpr float kLargest = std::numeric_limits<float>::max();
  if (from.outside.has_value()) {
    // An infinite bound says nothing, but the message must have a finite number.
    refinement.set_outside_score(std::clamp(*from.outside, -kLargest, kLargest) / divisor);
  }
  const double last = result.hits.empty() ? 0.0 : static_cast<double>(result.hits.back().score / divisor);
  SetCertificate(from.is_proven, last, refinement);
  return refinement;
}

}  // namespace maxsim::service
