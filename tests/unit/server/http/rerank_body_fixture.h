// Bodies of rerank requests, as tests write them.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/http/rerank/rerank_body.h"

namespace maxsim::http {

class RerankBodyTest : public testing::Test {
 protected:
  static constexpr service::RequestLimits kLimits = {.max_query_tokens = 512, .max_top_k = 1000};

  // Parses a body for one of the paths in kRerankPaths.
  static absl::StatusOr<RerankBody> ParseFor(const char* path, const std::string& body) {
    return ParseRerankBody(body, *FindRerankPath(path), kLimits);
  }

  static absl::StatusOr<v1::RerankRequest> Parse(const std::string& body) {
    absl::StatusOr<RerankBody> parsed = ParseFor("/v1/rerank", body);
    if (!parsed.ok()) return parsed.status();
    return parsed->request;
  }

  static std::string ErrorOf(const std::string& body) {
    const auto request = Parse(body);
    EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument) << body;
    return std::string(request.status().message());
  }

  // Returns a valid body with one member replaced, or removed if `value` is null.
  static std::string With(const std::string& member, const nlohmann::json& value) {
    nlohmann::json body = {{"model", "c"}, {"query", {{0.5, 1}, {-1, 0}}}, {"documents", {"a", "b"}}};
    body[member] = value;
    if (value.is_null()) body.erase(member);
    return body.dump();
  }
};

}  // namespace maxsim::http
