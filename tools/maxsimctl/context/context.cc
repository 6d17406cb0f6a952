#include "tools/maxsimctl/context/context.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collection/document_line.h"
#include "tools/command_line/tls_flags.h"
#include "tools/command_line/token_file.h"
#include "tools/maxsimctl/context/collection_view.h"

namespace maxsim::ctl {
namespace {

// Returns what the user can do if a server cannot be reached. Must recognize gRPC's messages by their words, because
// gRPC's errors have no other details.
const char* ReachHint(absl::string_view message, bool tls) {
  if (absl::StrContains(message, "http1.x")) return "is this its HTTP port? The gRPC port is wanted";
  if (absl::StrContains(message, "DNS resolution")) return "is the name right?";
  // If gRPC cannot make a TLS context, it does not try any address.
  if (tls &&
      (absl::StrContains(message, "empty address list") || absl::StrContains(message, "create security handshaker"))) {
    return "no root certificates could be read: name a file of them with --tls-ca";
  }
  if (tls && (absl::StrContains(message, "andshake") || absl::StrContains(message, "ertificate") ||
              absl::StrContains(message, "peer name"))) {
    return "does its certificate fit --tls-ca and --tls-server-name, and does the port speak TLS?";
  }
  if (absl::StrContains(message, "Socket closed") || absl::StrContains(message, "onnection reset")) {
    return tls ? "does it need a client's certificate (--tls-cert and --tls-key)?" : "does it need --tls?";
  }
  return "start one with 'maxsimd --collection NAME=PATH', or name another with --server";
}

// Returns ": " and the reason, to replace gRPC's own message; "" if the message is not known.
std::string ReachReason(absl::string_view message) {
  struct Reason {
    absl::string_view words;  // text in messages of gRPC, OpenSSL or BoringSSL
    absl::string_view reason;
  };
  static constexpr Reason kReasons[] = {
      {"http1.x", "it answers in HTTP/1"},
      {"dns resolution", "no address was found for the name"},
      {"certificate has expired", "its certificate has expired"},
      {"certificate verify failed", "its certificate was signed by none of the known authorities"},
      {"certificate_verify_failed", "its certificate was signed by none of the known authorities"},
      {"not in peer certificate", "its certificate is for another name"},
      {"hostname verification", "its certificate is for another name"},
      {"wrong version number", "it does not speak TLS"},
      {"wrong_version_number", "it does not speak TLS"},
      {"connection refused", "the connection was refused"},
      {"unreachable", "there is no route to it"},
      {"no route to host", "there is no route to it"},
      {"timed out", "the connection took too long"},
      {"timeout", "the connection took too long"},
      {"socket closed", "it closed the connection"},
      {"connection reset", "it closed the connection"},
      {"broken pipe", "it closed the connection"},
      {"no such file", "there is no such socket"},
  };
  const std::string lower = absl::AsciiStrToLower(message);
  for (const auto& [words, reason] : kReasons) {
    if (absl::StrContains(lower, words)) return absl::StrCat(": ", reason);
  }
  return "";
}

// Loading a large collection takes long, so --timeout can lengthen this deadline but not shorten it.
absl::Duration AdminTimeout(const GlobalOptions& options) {
  return std::max(client::ClientOptions().admin_timeout, absl::Seconds(options.timeout_seconds));
}

}  // namespace

bool Context::use_color() const {
  if (options.color != "auto") return options.color == "always";
  const char* no_color = environment_.getenv("NO_COLOR");
  return environment_.out_is_terminal && (no_color == nullptr || *no_color == '\0');
}

absl::StatusOr<client::Client*> Context::Connect() {
  if (client_ != nullptr) return client_.get();
  const absl::StatusOr<std::string> token = ReadToken();
  if (!token.ok()) return token.status();
  absl::StatusOr<std::unique_ptr<client::Client>> client = MakeClient(options.server, *token, absl::ZeroDuration());
  if (!client.ok()) return client.status();
  client_ = *std::move(client);
  return client_.get();
}

absl::StatusOr<std::string> Context::ReadToken() const {
  if (options.token_file.empty()) return "";
  return command_line::ReadTokenFile(options.token_file);
}

absl::StatusOr<std::unique_ptr<client::Client>> Context::MakeClient(const std::string& target, const std::string& token,
                                                                    absl::Duration keepalive_time) const {
  client::ClientOptions client_options;
  client_options.target = target;
  // Sends all calls of a command to one replica, because they belong together.
  client_options.load_balancing = "pick_first";
  client_options.timeout = absl::Seconds(options.timeout_seconds);
  client_options.admin_timeout = AdminTimeout(options);
  client_options.keepalive_time = keepalive_time;
  client_options.client_id = options.client_id;
  client_options.client_key = options.client_key;
  client_options.tls = options.tls;
  client_options.bearer_token = token;
  absl::StatusOr<std::unique_ptr<client::Client>> client = client::Client::Create(client_options);
  if (!client.ok()) return command_line::NameTlsFlag(client.status());
  return client;
}

absl::Status Context::AddAdvice(const absl::Status& status) const {
  return AddAdvice(status, absl::Seconds(options.timeout_seconds));
}

absl::Status Context::AddAdminAdvice(const absl::Status& status) const {
  return AddAdvice(status, AdminTimeout(options));
}

absl::Status Context::AddAdvice(const absl::Status& status, absl::Duration deadline) const {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      if (client_ != nullptr && client_->connected()) return status;
      return absl::UnavailableError(absl::StrCat("cannot reach maxsimd at ", options.server, " (",
                                                 ReachHint(status.message(), options.tls.enabled), ")",
                                                 ReachReason(status.message())));
    // gRPC itself returns this code if the server does not have the service.
    case absl::StatusCode::kUnimplemented:
      return absl::UnimplementedError(
          absl::StrCat("the server at ", options.server,
                       " has no such call; if admin.enabled is false, it has none of the calls of Admin",
                       status.message().empty() ? "" : absl::StrCat(": ", status.message())));
    case absl::StatusCode::kUnauthenticated:
      return absl::UnauthenticatedError(absl::StrCat(
          status.message(), options.token_file.empty() ? " (give the server's token with --token-file)" : ""));
    case absl::StatusCode::kDeadlineExceeded:
      // If the deadline passed in the server, adds the server's message, which says at which step. Leaves out gRPC's
      // own message, which says nothing more.
      return absl::DeadlineExceededError(absl::StrCat(
          "no answer from ", options.server, " within ", absl::ToDoubleSeconds(deadline), " s (see --timeout)",
          absl::StartsWithIgnoreCase(status.message(), "deadline exceeded") ? ""
                                                                            : absl::StrCat(": ", status.message())));
    default:
      return status;
  }
}

absl::StatusOr<v1::CollectionInfo> Context::FindCollection(const std::string& name) {
  absl::StatusOr<client::Client*> client = Connect();
  if (!client.ok()) return client.status();
  const absl::StatusOr<v1::GetInfoResponse> info = (*client)->GetInfo();
  if (!info.ok()) return AddAdvice(info.status());
  std::vector<std::string> names;
  std::vector<const v1::CollectionInfo*> ready;
  for (const v1::CollectionInfo& collection : info->collections()) {
    if (collection.name() == name || (name.empty() && info->collections_size() == 1)) return collection;
    const bool serves =
        collection.state() == v1::COLLECTION_STATE_READY || collection.state() == v1::COLLECTION_STATE_PARTIAL;
    if (serves) ready.push_back(&collection);
    names.push_back(serves ? collection.name()
                           : absl::StrCat(collection.name(), " (", StateName(collection.state()), ")"));
  }
  if (name.empty() && ready.size() == 1) return *ready.front();
  if (names.empty()) return absl::NotFoundError(absl::StrCat("the server at ", options.server, " holds no collection"));
  const std::string held = absl::StrCat("the server holds ", absl::StrJoin(names, ", "));
  if (name.empty()) return absl::InvalidArgumentError(absl::StrCat("--collection is needed: ", held));
  return absl::NotFoundError(absl::StrCat("no collection '", name, "'; ", held));
}

void Context::Print(const Json& json) const {
  out() << json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) << '\n';
}

double Shortest(float value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  double result = value;
  if (error == std::errc()) std::from_chars(text, end, result);
  return result;
}

Json PayloadJson(const std::string& payload) {
  if (payload.empty()) return nullptr;
  // A payload that is nested too deeply is printed as a string. To write it as JSON would need too deep a stack.
  if (!collection::CheckPayload(payload).ok()) return payload;
  Json json = Json::parse(payload, nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? Json(payload) : json;
}

std::string PayloadText(const std::string& payload, const char* name) {
  const Json json = PayloadJson(payload);
  if (!json.is_object()) return "";
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace maxsim::ctl
