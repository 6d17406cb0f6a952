// Answers requests with an engine, without a queue.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "server/service/request/answer.h"
#include "server/service/request/translate.h"
#include "tests/support/engine_fixture.h"

namespace maxsim::service {

struct AskedRequest {
  const v1::RerankRequest* request;
  std::shared_ptr<const store::Collection> collection;
};

// Answers requests in one batch.
inline std::vector<v1::RerankResponse> AnswerTogether(const std::vector<AskedRequest>& requests,
                                                      engine::Engine& engine) {
  std::vector<PendingAnswer> answers;
  std::vector<std::unique_ptr<engine::Job>> jobs;
  std::vector<int> job_of;
  for (const AskedRequest& asked : requests) {
    EXPECT_TRUE(CheckEnvelope(*asked.request, {}).ok()) << CheckEnvelope(*asked.request, {});
    absl::StatusOr<Translated> translated = Translate(*asked.request, asked.collection, {});
    EXPECT_TRUE(translated.ok()) << translated.status();
    answers.push_back(std::move(translated->answer));
    job_of.push_back(translated->job == nullptr ? -1 : static_cast<int>(jobs.size()));
    if (translated->job != nullptr) jobs.push_back(std::move(translated->job));
  }
  std::vector<absl::StatusOr<engine::JobResult>> results;
  if (!jobs.empty()) results = engine::Execute(engine.lane(0), jobs);
  std::vector<v1::RerankResponse> responses;
  for (size_t idx = 0; idx < requests.size(); ++idx) {
    if (job_of[idx] < 0) {
      responses.push_back(BuildResponse(answers[idx], engine::JobResult()));
      continue;
    }
    const absl::StatusOr<engine::JobResult>& result = results[static_cast<size_t>(job_of[idx])];
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(CheckAnswerSize(answers[idx], *result, {}).ok());
    responses.push_back(BuildResponse(answers[idx], *result));
    EXPECT_EQ(responses.back().sequence(), requests[idx].collection->sequence());
  }
  return responses;
}

}  // namespace maxsim::service
