// The paths of rerank calls. On each path, bodies and answers have the form of the services whose clients use the path.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace maxsim::http {

// Names of the calls in the metrics. document_calls.h has the other names.
inline constexpr char kRerankMethod[] = "http";
inline constexpr char kExplainMethod[] = "explain";
inline constexpr char kInfoMethod[] = "http_info";
inline constexpr char kOtherMethod[] = "http_other";

enum class RerankApi : uint8_t {
  kV1,        // Cohere v1, Jina, Voyage
  kV2,        // Cohere v2
  kTei,       // text-embeddings-inference, and vLLM where the body has `documents`
  kInfinity,  // as vLLM, except that documents come back as strings
  kNim,       // NVIDIA NIM
};

struct RerankPath {
  std::string_view path;
  RerankApi api;
  bool strings_are_texts;  // true: a string in `documents` is a text; false: the id of a stored document
};

inline constexpr std::array<RerankPath, 10> kRerankPaths = {{{"/v1/rerank", RerankApi::kV1, false},
                                                             {"/v2/rerank", RerankApi::kV2, false},
                                                             {"/rerank", RerankApi::kTei, false},
                                                             {"/infinity/rerank", RerankApi::kInfinity, false},
                                                             {"/v1/ranking", RerankApi::kNim, false},
                                                             {"/text/v1/rerank", RerankApi::kV1, true},
                                                             {"/text/v2/rerank", RerankApi::kV2, true},
                                                             {"/text/rerank", RerankApi::kTei, true},
                                                             {"/text/infinity/rerank", RerankApi::kInfinity, true},
                                                             {"/text/v1/ranking", RerankApi::kNim, true}}};

// Returns the rerank call of a path, or null.
inline const RerankPath* FindRerankPath(std::string_view path) {
  for (const RerankPath& known : kRerankPaths) {
    if (known.path == path) return &known;
  }
  return nullptr;
}

}  // namespace maxsim::http
