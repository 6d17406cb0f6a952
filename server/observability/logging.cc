#include "server/observability/logging.h"

#include <grpc/support/log.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "server/observability/log_limit.h"
#include "server/observability/log_sink.h"
#include "spdlog/pattern_formatter.h"

// Later releases of protobuf do not have this header, because they log through Abseil.
#if __has_include("google/protobuf/stubs/logging.h")
#include "google/protobuf/stubs/logging.h"
#define MAXSIM_PROTOBUF_LOGS 1
#endif

namespace maxsim::log {
namespace {

struct Event {
  struct Field {
    std::string_view key;
    std::string_view value;
    bool is_quoted = true;  // in JSON
  };
  std::string_view message;
  std::vector<Field> fields;
  std::string_view table;
};

Event ParsePayload(std::string_view payload) {
  Event event;
  if (const size_t group = payload.find(kGroupSeparator); group != std::string_view::npos) {
    event.table = payload.substr(group + 1);
    payload = payload.substr(0, group);
  }
  size_t end = std::min(payload.find(kRecordSeparator), payload.size());
  event.message = payload.substr(0, end);
  while (end < payload.size()) {
    payload.remove_prefix(end + 1);
    end = std::min(payload.find(kRecordSeparator), payload.size());
    const std::string_view field = payload.substr(0, end);
    const size_t unit = field.find(kUnitSeparator);
    if (unit == std::string_view::npos) continue;
    std::string_view value = field.substr(unit + 1);
    const bool is_quoted = value.empty() || value.front() != kUnitSeparator;
    if (!is_quoted) value.remove_prefix(1);
    event.fields.push_back({field.substr(0, unit), value, is_quoted});
  }
  return event;
}

void Append(spdlog::memory_buf_t& out, std::string_view text) { out.append(text.data(), text.data() + text.size()); }

// Appends text with control characters replaced by spaces, because a client's text must not change how the log is
// displayed. With `may_quote`, replaces line ends too, and quotes a text that has spaces.
void AppendText(spdlog::memory_buf_t& out, std::string_view text, bool may_quote) {
  const bool quote = may_quote && (text.empty() || text.find_first_of(" \"=\\") != std::string_view::npos);
  if (quote) out.push_back('"');
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    const bool control = (byte < 0x20 || byte == 0x7f) && !(letter == '\n' && !may_quote);
    if (quote && (letter == '"' || letter == '\\')) out.push_back('\\');
    out.push_back(control ? ' ' : letter);
  }
  if (quote) out.push_back('"');
}

std::unique_ptr<spdlog::pattern_formatter> Pattern(const char* pattern, spdlog::pattern_time_type time) {
  return std::make_unique<spdlog::pattern_formatter>(pattern, time, "");
}

class Text : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const Event event = ParsePayload(std::string_view(message.payload.data(), message.payload.size()));
    prefix_->format(message, out);
    AppendText(out, event.message, /*may_quote=*/false);
    for (const auto& [key, value, is_quoted] : event.fields) {
      out.push_back(' ');
      Append(out, key);
      out.push_back('=');
      AppendText(out, value, /*may_quote=*/true);
    }
    out.push_back('\n');
    for (std::string_view rest = event.table; !rest.empty();) {
      const size_t end = rest.find('\n');
      Append(out, "    ");
      AppendText(out, rest.substr(0, end), /*may_quote=*/false);
      out.push_back('\n');
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<Text>(); }

 private:
  std::unique_ptr<spdlog::pattern_formatter> prefix_ =
      Pattern("%Y-%m-%d %H:%M:%S.%e %^%L%$ ", spdlog::pattern_time_type::local);
};

class Json : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    const Event event = ParsePayload(std::string_view(message.payload.data(), message.payload.size()));
    prefix_->format(message, out);
    Append(out, JsonString(event.message));
    for (const auto& [key, value, is_quoted] : event.fields) {
      out.push_back(',');
      Append(out, JsonString(key));
      out.push_back(':');
      Append(out, is_quoted ? JsonString(value) : std::string(value));
    }
    if (!event.table.empty()) {
      Append(out, ",\"table\":");
      Append(out, JsonString(event.table));
    }
    Append(out, "}\n");
  }
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<Json>(); }

 private:
  std::unique_ptr<spdlog::pattern_formatter> prefix_ =
      Pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","thread":%t,"message":)", spdlog::pattern_time_type::utc);
};

// Limits on gRPC's error lines. These lines quote what clients send, even clients without a token: without a limit, a
// header of a megabyte would make a log line of a megabyte.
constexpr size_t kMaxErrorBytes = 300;
constexpr int kMaxErrorsPerSecond = 10;
// Debug lines are cut later than errors: an operator who turns them on needs the details.
constexpr size_t kMaxDebugBytes = 4096;

// gRPC logs this before it aborts the process. No client can make gRPC log it.
bool IsAssertion(std::string_view message) { return message.substr(0, 16) == "assertion failed"; }

void LogFromGrpc(gpr_log_func_args* args) {
  static LogRateLimiter limit(kMaxErrorsPerSecond);
  if (args->severity != GPR_LOG_SEVERITY_ERROR) {
    if (DebugEnabled()) Write(spdlog::level::debug, Truncate(args->message, kMaxDebugBytes), {{"from", "grpc"}});
    return;
  }
  if (!spdlog::should_log(spdlog::level::warn)) return;
  if (IsAssertion(args->message)) return Write(spdlog::level::critical, args->message, {{"from", "grpc"}});
  const std::optional<uint64_t> left_out = limit.Admit(LogRateLimiter::Clock::now());
  if (!left_out.has_value()) return;
  const std::string message = Truncate(args->message, kMaxErrorBytes);
  if (*left_out == 0) return Write(spdlog::level::warn, message, {{"from", "grpc"}});
  Write(spdlog::level::warn, message, {{"from", "grpc"}, {"left_out", *left_out}});
}

#ifdef MAXSIM_PROTOBUF_LOGS
// Protobuf's errors are about messages that cannot be parsed. The sender gets an error in any case, so only fatal
// errors are logged above debug.
void LogFromProtobuf(google::protobuf::LogLevel severity, const char*, int, const std::string& message) {
  const auto level = severity == google::protobuf::LOGLEVEL_FATAL ? spdlog::level::critical : spdlog::level::debug;
  if (spdlog::should_log(level)) Write(level, Truncate(message, kMaxDebugBytes), {{"from", "protobuf"}});
}
#endif

}  // namespace

std::string JsonString(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::unique_ptr<spdlog::formatter> TextFormatter() { return std::make_unique<Text>(); }
std::unique_ptr<spdlog::formatter> JsonFormatter() { return std::make_unique<Json>(); }

void Flush() { spdlog::default_logger_raw()->flush(); }

void Initialize(const std::string& level, const std::string& format) {
  auto sink = std::make_shared<DescriptorSink>(STDERR_FILENO, DescriptorSink::Options());
  sink->FlushOnCrash();
  auto logger = std::make_shared<spdlog::logger>("maxsimd", std::move(sink));
  logger->set_formatter(format == "json" ? JsonFormatter() : TextFormatter());
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(
      spdlog::level::critical);  // A critical line may be the last one; all others are written within moments.
  spdlog::set_default_logger(std::move(logger));
  gpr_set_log_function(LogFromGrpc);
#ifdef MAXSIM_PROTOBUF_LOGS
  google::protobuf::SetLogHandler(LogFromProtobuf);
#endif
}

}  // namespace maxsim::log
