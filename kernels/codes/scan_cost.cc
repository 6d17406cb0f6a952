#include "kernels/codes/scan_cost.h"

#include <string_view>

namespace maxsim {
namespace {

// The times below are fitted to the measurements with one query on one H200 (docs/performance/codes.json: call_ms).
// These are within 4 % of the model (scan_cost_test.cc). Time depends on the numbers of tokens and documents, but not
// on bytes: vectors of 96 coordinates take as long as vectors of 128.

// Time per part: starting its kernels, and selecting its best documents.
constexpr double kSecondsPerPart = 50e-6;
// Time per document: adding up over the query tokens, and computing the score.
constexpr double kSecondsPerDocument = 0.2e-9;
// Time per token with the kernels for Hopper, for 1, 2 and 4 planes.
constexpr double kHopperSecondsPerToken1 = 6.1e-12;
constexpr double kHopperSecondsPerToken2 = 11.76e-12;
constexpr double kHopperSecondsPerToken4 = 18.4e-12;
// Time per token with the portable kernels, which run on every GPU, for one plane. Other numbers of planes were not
// measured.
constexpr double kPortableSecondsPerToken1 = 10.1e-12;

// The model holds for these dimensions, without factors. Vectors of 96 and 128 coordinates were measured; others are
// padded to one of these.
constexpr int32_t kMinMeasuredDim = 65;
constexpr int32_t kMaxMeasuredDim = 128;

// A GPU's memory bandwidth in GB/s, from its vendor's data sheet.
struct KnownGpu {
  std::string_view name;  // BackendInfo::device
  double gb_per_second = 0;
};
constexpr KnownGpu kMeasuredGpu = {"NVIDIA H200", 4800};
constexpr KnownGpu kKnownGpus[] = {
    kMeasuredGpu,
    {"NVIDIA H200 NVL", 4800},
    {"NVIDIA H100 80GB HBM3", 3350},
    {"NVIDIA H100 NVL", 3900},
    {"NVIDIA H100 PCIe", 2000},
    {"NVIDIA A100-SXM4-80GB", 2039},
    {"NVIDIA A100 80GB PCIe", 1935},
    {"NVIDIA A100-SXM4-40GB", 1555},
    {"NVIDIA A100-PCIE-40GB", 1555},
    {"NVIDIA A30", 933},
    {"NVIDIA A40", 696},
    {"NVIDIA A10", 600},
    {"NVIDIA A10G", 600},
    {"NVIDIA L4", 300},
    {"NVIDIA L40", 864},
    {"NVIDIA L40S", 864},
    {"NVIDIA RTX A6000", 768},
    {"NVIDIA RTX 6000 Ada Generation", 960},
    {"NVIDIA GeForce RTX 3090", 936},
    {"NVIDIA GeForce RTX 4090", 1008},
};

// Returns how many times longer than the measured GPU another GPU is expected to take: the ratio of their memory
// bandwidths.
std::optional<double> Slowdown(std::string_view device) {
  for (const KnownGpu& gpu : kKnownGpus) {
    if (gpu.name == device) return kMeasuredGpu.gb_per_second / gpu.gb_per_second;
  }
  return std::nullopt;
}

std::optional<double> SecondsPerToken(bool hopper, int planes) {
  if (!hopper) return planes == 1 ? std::optional(kPortableSecondsPerToken1) : std::nullopt;
  switch (planes) {
    case 1:
      return kHopperSecondsPerToken1;
    case 2:
      return kHopperSecondsPerToken2;
    case 4:
      return kHopperSecondsPerToken4;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<double> ExpectedScanSeconds(const BackendInfo& device, const CodeShape& shape, int planes,
                                          const ScanSize& size) {
  if (device.name != "cuda" || shape.factors || shape.dim < kMinMeasuredDim || shape.dim > kMaxMeasuredDim)
    return std::nullopt;
  const std::optional<double> per_token = SecondsPerToken(device.isa == "sm_90", planes);
  if (!per_token.has_value()) return std::nullopt;
  const std::optional<double> slowdown = Slowdown(device.device);
  if (!slowdown.has_value()) return std::nullopt;
  return static_cast<double>(size.num_parts) * kSecondsPerPart +
         *slowdown * (static_cast<double>(size.num_documents) * kSecondsPerDocument +
                      static_cast<double>(size.num_tokens) * *per_token);
}

}  // namespace maxsim
