// Fuzzes the answers of a trace collector. The first byte of the input is the status code of the call. Then follow the
// status message, a NUL byte, and the response.
#include <algorithm>
#include <cstdint>
#include <string>

#include "server/tracing/collector_answer.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

constexpr uint64_t kNumSpans = 512;

void FuzzCollectorAnswer(std::string_view input) {
  if (input.empty()) return;
  // Restricted to values that the enumeration can represent.
  const auto code = static_cast<grpc::StatusCode>(static_cast<signed char>(input[0]) % 32);
  input.remove_prefix(1);
  const std::string_view message = input.substr(0, input.find('\0'));
  const absl::Status status = tracing::CollectorStatus(grpc::Status(code, std::string(message)));
  Require(status.ok() == (code == grpc::StatusCode::OK), "an error stays an error");
  const std::string_view shown(status.message().data(), status.message().size());
  Require(shown.size() <= tracing::kMaxCollectorErrorBytes && IsUtf8(shown), "the message is short and text");
  Require(std::none_of(shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }),
          "the message fits into a line");
  const std::string_view bytes = input.substr(std::min(message.size() + 1, input.size()));
  opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse response;
  if (!response.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
  const uint64_t refused = tracing::NumRefused(response, kNumSpans);
  const int64_t said = response.partial_success().rejected_spans();
  Require(refused <= kNumSpans, "no more spans are refused than were sent");
  Require(said < 0 || said > static_cast<int64_t>(kNumSpans) || refused == static_cast<uint64_t>(said),
          "a number that can be right is taken");
}

const Registration kCollectorAnswerTarget("collector_answer", &FuzzCollectorAnswer);

}  // namespace
}  // namespace maxsim::fuzz
