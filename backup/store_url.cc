#include "backup/store_url.h"

#include <filesystem>
#include <utility>

#include "backup/s3/http_transport.h"
#include "backup/s3/s3_store.h"
#include "backup/store/folder_store.h"
#include "base/text.h"

namespace maxsim::backup {

bool IsUrl(std::string_view text) { return text.find("://") != std::string_view::npos; }

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenStore(const std::string& url, const Getenv& getenv,
                                                       const StopSignal* stop) {
  constexpr std::string_view kFile = "file://";
  if (url.starts_with(kFile)) {
    const std::string folder = std::filesystem::path(url.substr(kFile.size())).lexically_normal().string();
    if (!folder.starts_with('/') || folder == "/") return Invalid("URL: ", Quote(url), " is not file:///FOLDER");
    return MakeFolderStore(folder.ends_with('/') ? folder.substr(0, folder.size() - 1) : folder);
  }
  if (!url.starts_with("s3://")) {
    return Invalid("URL: ", Quote(url), " must be s3://BUCKET/PREFIX or file:///FOLDER");
  }
  absl::StatusOr<S3Settings> settings = ReadS3Settings(url, getenv);
  if (!settings.ok()) return settings.status();
  std::unique_ptr<HttpTransport> transport = MakeHttpTransport(settings->origin, settings->ca_file);
  return MakeS3Store(*std::move(settings), std::move(transport), S3Clock::Real(), stop);
}

}  // namespace maxsim::backup
