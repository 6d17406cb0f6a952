#include "bench/kernels/gpu_shapes.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "kernels/limits.h"

namespace maxsim::bench {
namespace {

constexpr int32_t kPassageMin = 8;
constexpr int32_t kPassageMax = 512;
// The mean and the standard deviation of the logarithm of a passage's length.
constexpr double kPassageMean = 4.6;
constexpr double kPassageDeviation = 0.62;

constexpr double kMaxRandomElements = 0x1p29;
constexpr double kMaxRandomOperations = 8e12;

// SplitMix64 (Steele, Lea & Flood 2014), which gives the same numbers with every standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t bits = state_ += 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return bits ^ (bits >> 31);
  }
  // Returns a number in (0, 1).
  double Uniform() { return (static_cast<double>(Next() >> 12) + 0.5) * 0x1p-52; }
  // Returns a number in [0, bound). It is a remainder, whose bias is too small to matter here.
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }
  // Returns a number in low .. high. Its logarithm is distributed evenly.
  int64_t LogUniform(int64_t low, int64_t high) {
    const double from = std::log(static_cast<double>(low)), to = std::log(static_cast<double>(high) + 1);
    return std::clamp(static_cast<int64_t>(std::exp(from + (to - from) * Uniform())), low, high);
  }

 private:
  uint64_t state_;
};

// Returns the seed of a shape (FNV-1a of its name), which is the same for every type and width.
uint64_t SeedOf(const GpuCase& shape) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : shape.name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

void UsePassages(GpuCase& shape) {
  shape.passages = true;
  shape.min_document_tokens = kPassageMin;
  shape.max_document_tokens = kPassageMax;
}

// Reads a number in 1 .. limit. Returns false if `text` is no such number.
template <class T>
bool ReadNumber(absl::string_view text, int64_t limit, T& target) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value) || value < 1 || value > limit) return false;
  target = static_cast<T>(value);
  return true;
}

bool ReadLengths(absl::string_view text, GpuCase& shape) {
  if (text == "passages") {
    UsePassages(shape);
    return true;
  }
  const std::pair<absl::string_view, absl::string_view> range = absl::StrSplit(text, absl::MaxSplits('-', 1));
  if (!ReadNumber(range.first, kMaxDocumentTokens, shape.min_document_tokens)) return false;
  shape.max_document_tokens = shape.min_document_tokens;
  if (range.second.empty()) return range.first == text;
  return ReadNumber(range.second, kMaxDocumentTokens, shape.max_document_tokens) &&
         shape.max_document_tokens >= shape.min_document_tokens;
}

bool ReadSelection(absl::string_view text, GpuCase& shape) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, 'k');
  return parts.size() == 2 && ReadNumber(parts[0], kMaxShardDocuments, shape.num_documents) &&
         ReadNumber(parts[1], kMaxTopK, shape.select_k);
}

// Reads the part of a name that has the number of documents: "1000". For lists, it has the size of each list and the
// number of documents: "1000of100000". Returns false if `text` has another form.
bool ReadDocuments(absl::string_view text, bool lists, GpuCase& shape) {
  if (!lists) return ReadNumber(text, kMaxShardDocuments, shape.num_documents);
  const std::vector<absl::string_view> parts = absl::StrSplit(text, "of");
  return parts.size() == 2 && ReadNumber(parts[1], kMaxShardDocuments, shape.num_documents) &&
         ReadNumber(parts[0], shape.num_documents, shape.list_size);
}

GpuCase Known(absl::string_view name, ScalarType type = ScalarType::kF16, int32_t dim = 128) {
  GpuCase shape = *ParseGpuCase(name);
  shape.type = type;
  shape.dim = dim;
  return shape;
}

}  // namespace

double GpuCase::ExpectedTokens() const {
  double mean = min_document_tokens;
  if (passages) {
    mean = std::exp(kPassageMean + kPassageDeviation * kPassageDeviation / 2);
  } else if (max_document_tokens > min_document_tokens) {
    const double low = min_document_tokens, high = max_document_tokens + 1.0;
    mean = (high - low) / std::log(high / low) - 0.5;
  }
  return mean * static_cast<double>(num_documents);
}

absl::StatusOr<GpuCase> ParseGpuCase(absl::string_view name) {
  GpuCase shape;
  shape.name = std::string(name);
  const absl::Status bad = absl::InvalidArgumentError(
      absl::StrCat("no shape \"", name, "\": 1x1000x32x300, shard:32x100000, lists:32x1000of100000, topk:1000000k100"));
  absl::string_view rest = name;
  if (absl::ConsumePrefix(&rest, "topk:")) return ReadSelection(rest, shape) ? shape : absl::StatusOr<GpuCase>(bad);
  const bool lists = absl::ConsumePrefix(&rest, "lists:");
  const bool shard = !lists && absl::ConsumePrefix(&rest, "shard:");
  const std::vector<absl::string_view> parts = absl::StrSplit(rest, 'x');
  if (parts.size() != 4 && !(parts.size() == 2 && (lists || shard))) return bad;
  if (!ReadNumber(parts[0], 4096, shape.num_queries) || !ReadDocuments(parts[1], lists, shape)) return bad;
  UsePassages(shape);
  if (parts.size() == 4) {
    shape.passages = false;
    if (!ReadNumber(parts[2], kMaxQueryTokens, shape.query_tokens) || !ReadLengths(parts[3], shape)) return bad;
  }
  return shape;
}

std::vector<GpuCase> GoalCases() {
  constexpr ScalarType kI8 = ScalarType::kI8;
  return {
      Known("1x1000x32x300"),
      Known("1x10000x32x300"),
      Known("1x10000x32x300", kI8),
      Known("1x1000x32x1024"),
      Known("1x1000x128x1024"),
      Known("1x1000x512x1024"),
      Known("1x1000x1024x1024"),
      Known("1x1000x1024x1024", kI8),
      Known("32x1024x32x180"),
      Known("32x1024x32x1024"),
      Known("32x1024x32x180", kI8),
      Known("128x128x32x300"),
      Known("8x10000x32x300"),
      Known("lists:32x1000of100000"),
      Known("lists:1x1000of100000"),
      Known("shard:1x100000"),
      Known("shard:32x100000"),
      Known("1x1000x32x300", ScalarType::kF16, 48),
      Known("1x1000x32x300", ScalarType::kF16, 96),
      Known("1x1000x32x300", ScalarType::kF16, 768),
      Known("topk:1000000k100"),
      Known("topk:10000000k1000"),
  };
}

std::vector<GpuCase> AllCases() {
  constexpr ScalarType kF16 = ScalarType::kF16, kBF16 = ScalarType::kBF16, kI8 = ScalarType::kI8;
  std::vector<GpuCase> cases = GoalCases();
  cases.insert(cases.end(), {
                                Known("1x1000x32x300", kI8),
                                Known("1x1000x32x1024", kI8),
                                Known("1x1000x512x1024", kI8),
                                Known("32x1024x32x1024", kI8),
                                Known("8x10000x32x300", kI8),
                                Known("lists:32x1000of100000", kI8),
                                Known("shard:1x100000", kI8),
                                Known("32x128x1024x1024"),
                                Known("1x10000x32x300", kBF16),
                                Known("1x1000x1024x1024", kBF16),
                                Known("32x1024x32x180", kBF16),
                                Known("1x10000x32x300", ScalarType::kF32),
                                Known("topk:1000000k10000"),
                            });
  for (const int32_t dim : {64, 256, 1024, 2048}) cases.push_back(Known("1x1000x32x300", kF16, dim));
  for (const int32_t dim : {48, 64, 96, 256, 768, 1024, 2048}) {
    cases.push_back(Known("1x1000x32x300", kI8, dim));
    cases.push_back(Known("1x1000x32x300", kBF16, dim));
  }
  return cases;
}

absl::StatusOr<std::vector<GpuCase>> SelectCases(absl::Span<const std::string> names,
                                                 absl::Span<const ScalarType> types, absl::Span<const int32_t> dims) {
  std::vector<GpuCase> wanted;
  const auto add = [&](const GpuCase& shape) {
    if (shape.select_k > 0) {
      wanted.push_back(shape);
      return;
    }
    for (const ScalarType type : types.empty() ? absl::MakeSpan(&shape.type, 1) : types) {
      for (const int32_t dim : dims.empty() ? absl::MakeSpan(&shape.dim, 1) : dims) {
        wanted.push_back(shape);
        wanted.back().type = type;
        wanted.back().dim = dim;
      }
    }
  };
  const std::vector<GpuCase> all = AllCases();
  for (const std::string& name : names) {
    if (name == "goals" || name == "all") {
      for (const GpuCase& shape : name == "goals" ? GoalCases() : all) add(shape);
      continue;
    }
    const absl::StatusOr<GpuCase> parsed = ParseGpuCase(name);
    if (!parsed.ok()) return parsed.status();
    const size_t before = wanted.size();
    for (const GpuCase& shape : all) {
      if (shape.name == name) add(shape);
    }
    if (wanted.size() == before) add(*parsed);
  }
  std::vector<GpuCase> cases;
  std::set<std::tuple<std::string, ScalarType, int32_t>> seen;
  for (GpuCase& shape : wanted) {
    if (seen.emplace(shape.name, shape.type, shape.dim).second) cases.push_back(std::move(shape));
  }
  return cases;
}

std::vector<GpuCase> RandomCases(int count, uint64_t seed) {
  constexpr int32_t kDims[] = {48, 64, 96, 128, 256, 768};
  Random random(seed);
  std::vector<GpuCase> cases;
  while (static_cast<int>(cases.size()) < count) {
    GpuCase shape;
    shape.type = random.Below(2) == 0 ? ScalarType::kF16 : ScalarType::kI8;
    shape.dim = kDims[random.Below(std::size(kDims))];
    shape.num_queries = static_cast<int32_t>(random.LogUniform(1, 64));
    shape.query_tokens = static_cast<int32_t>(random.LogUniform(4, 2048));
    shape.num_documents = random.LogUniform(10, 20000);
    shape.min_document_tokens = static_cast<int32_t>(random.LogUniform(4, 4096));
    shape.max_document_tokens = static_cast<int32_t>(random.LogUniform(4, 4096));
    if (shape.min_document_tokens > shape.max_document_tokens) {
      std::swap(shape.min_document_tokens, shape.max_document_tokens);
    }
    if (random.Below(2) == 0) shape.list_size = random.LogUniform(10, shape.num_documents);
    const double elements = shape.ExpectedTokens() * shape.dim;
    const double share =
        shape.list_size == 0 ? 1 : static_cast<double>(shape.list_size) / static_cast<double>(shape.num_documents);
    const double operations = 2 * elements * share * shape.num_queries * shape.query_tokens;
    if (elements > kMaxRandomElements || operations > kMaxRandomOperations) continue;
    const std::string documents = shape.list_size == 0 ? absl::StrCat(shape.num_documents)
                                                       : absl::StrCat(shape.list_size, "of", shape.num_documents);
    shape.name = absl::StrCat(shape.list_size == 0 ? "" : "lists:", shape.num_queries, "x", documents, "x",
                              shape.query_tokens, "x", shape.min_document_tokens, "-", shape.max_document_tokens);
    cases.push_back(std::move(shape));
  }
  return cases;
}

std::vector<int64_t> OffsetsOf(const GpuCase& shape) {
  Random random(SeedOf(shape));
  std::vector<int64_t> offsets{0};
  offsets.reserve(static_cast<size_t>(shape.num_documents) + 1);
  for (int64_t n = 0; n < shape.num_documents; ++n) {
    int64_t length = shape.min_document_tokens;
    if (shape.passages) {
      const double drawn = std::exp(kPassageMean + kPassageDeviation * random.Normal());
      length = std::clamp<int64_t>(std::llround(drawn), shape.min_document_tokens, shape.max_document_tokens);
    } else if (shape.max_document_tokens > shape.min_document_tokens) {
      length = random.LogUniform(shape.min_document_tokens, shape.max_document_tokens);
    }
    offsets.push_back(offsets.back() + length);
  }
  return offsets;
}

std::vector<std::vector<uint32_t>> ListsOf(const GpuCase& shape) {
  std::vector<std::vector<uint32_t>> lists(static_cast<size_t>(shape.num_queries));
  if (shape.list_size == 0) return lists;
  Random random(SeedOf(shape) + 1);
  std::vector<uint32_t> ordinals(static_cast<size_t>(shape.num_documents));
  std::iota(ordinals.begin(), ordinals.end(), 0);
  for (std::vector<uint32_t>& list : lists) {
    for (size_t n = 0; n < static_cast<size_t>(shape.list_size); ++n) {
      std::swap(ordinals[n], ordinals[n + random.Below(ordinals.size() - n)]);
    }
    list.assign(ordinals.begin(), ordinals.begin() + shape.list_size);
  }
  return lists;
}

}  // namespace maxsim::bench
