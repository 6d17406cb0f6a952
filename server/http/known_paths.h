// The fixed paths of the HTTP port, except those of rerank calls. No name of a collection or model is part of them.
#pragma once

#include <array>

#include "server/http/documents/document_path.h"

namespace maxsim::http {

inline constexpr char kExplainPath[] = "/v1/explain";
inline constexpr char kStatsPath[] = "/v1/stats";
inline constexpr char kCollectionsPath[] = "/v1/collections";
inline constexpr char kOpenApiPath[] = "/openapi.json";
inline constexpr char kLivePath[] = "/livez";
inline constexpr char kReadyPath[] = "/readyz";
inline constexpr char kMetricsPath[] = "/metrics";

struct KnownPath {
  const char* path;
  const char* methods;
};
inline constexpr std::array<KnownPath, 9> kKnownPaths = {{{kExplainPath, "POST"},
                                                          {kCountPath, "POST"},
                                                          {kFacetsPath, "POST"},
                                                          {kCollectionsPath, "GET, HEAD"},
                                                          {kStatsPath, "GET, HEAD"},
                                                          {kOpenApiPath, "GET, HEAD"},
                                                          {kLivePath, "GET, HEAD"},
                                                          {kReadyPath, "GET, HEAD"},
                                                          {kMetricsPath, "GET, HEAD"}}};

}  // namespace maxsim::http
