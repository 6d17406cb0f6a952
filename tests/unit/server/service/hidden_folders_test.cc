#include "server/service/hidden_folders.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "client/status.h"

namespace maxsim::service {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(HiddenFoldersTest, PathsAreCutToTheirLastComponent) {
  EXPECT_EQ(WithoutFolders("cannot open /srv/secret/corpus/shard-1.msx: No such file"),
            "cannot open shard-1.msx: No such file");
  EXPECT_EQ(WithoutFolders("/srv/secret/log.1: cut off at 7"), "log.1: cut off at 7");
  EXPECT_EQ(WithoutFolders("/v1/rerank needs TLS, as /text/v1/rerank does"),
            "/v1/rerank needs TLS, as /text/v1/rerank does");
  EXPECT_EQ(WithoutFolders("\"/srv/secret\" (/mnt/other/a, /b/c/) key=/d/e; /f"), "\"secret\" (a, c) key=e; f");
}

// Folder names that an operator may choose, with characters that make it hard to find the end of a path in a message.
constexpr const char* kOddFolders[] = {"my docs",   "a b c", " lead", "it's",  "a\"b",   "one, two", "a; b", "a: b",
                                       "(old) new", "x = y", "a=b",   "[1] 2", "trail:", "end)",     "v1"};

// Error messages with a path, as base/file.h, the parsers of file formats, and RocksDB write them. ~ stands for the
// path.
constexpr const char* kMessages[] = {
    "cannot open ~: No such file or directory",
    "cannot write ~: No space left on device",
    "~: cut off at 7",
    "~",
    "cannot list folder ~/: Permission denied",
    "collection c: \"~\": not a regular file, but a pipe",
    "no addresses to map ~, 3 bytes",
    "IO error: While open a file for appending: ~: Input/output error",
    "cannot rename ~ to ~: Read-only file system",
    "path=~; second=~",
};

TEST(HiddenFoldersTest, FoldersAreHiddenWhollyWhateverTheirNames) {
  for (const std::string folder : kOddFolders) {
    for (const char* message : kMessages) {
      const std::string path = "/srv/" + folder + "/log/" + folder + "/x";
      const std::string text = absl::StrReplaceAll(message, {{"~", path}});
      SCOPED_TRACE(text);
      v1::CollectionInfo info;
      info.set_error(text);
      info.mutable_live()->set_error(text);
      HideFolders(info);
      for (const std::string& shown : {WithoutFolders(text), info.error(), info.live().error()}) {
        EXPECT_THAT(shown, Not(HasSubstr(folder)));
        EXPECT_THAT(shown, Not(HasSubstr("log")));
      }
      for (const absl::StatusCode code : {absl::StatusCode::kInternal, absl::StatusCode::kUnavailable,
                                          absl::StatusCode::kDataLoss, absl::StatusCode::kResourceExhausted,
                                          absl::StatusCode::kPermissionDenied, absl::StatusCode::kFailedPrecondition}) {
        const absl::Status shown = ForClient(absl::Status(code, text));
        EXPECT_THAT(std::string(shown.message()), Not(HasSubstr(folder)));
        EXPECT_THAT(std::string(shown.message()), Not(HasSubstr("log")));
      }
    }
    const absl::Status shown = ForClient(absl::NotFoundError("/srv/" + folder + "/x: No such file or directory"));
    EXPECT_EQ(shown.message(), "x: No such file or directory");
  }
}

TEST(HiddenFoldersTest, ThePathIsHiddenAndTheReasonShown) {
  EXPECT_EQ(WithoutFolders("cannot write /srv/my docs/log/x: No space left"), "cannot write x: No space left");
  EXPECT_EQ(WithoutFolders("/srv/my docs/a b: gone"), "a b: gone");
  EXPECT_EQ(WithoutFolders("cannot rename /srv/my docs/a to /srv/my docs/b"), "cannot rename a to b");
  EXPECT_EQ(WithoutFolders("ok\n/srv/my docs/a\nrate: 3 tokens/s"), "ok\na\nrate: 3 tokens/s");
  EXPECT_EQ(WithoutFolders("/srv/my docs/"), "my docs");
  EXPECT_EQ(WithoutFolders("/srv/my docs/a: see https://host/b"), "a: see https://host/b");
}

TEST(HiddenFoldersTest, OtherTextsStayAsTheyAre) {
  for (const char* text : {"", "no path", "http://encoder:8080/embed: 503", "1/2 of the parts", "a / b", "tokens/s",
                           "nats://a:4222 does not answer"}) {
    EXPECT_EQ(WithoutFolders(text), text);
  }
}

TEST(HiddenFoldersTest, MessagesAboutTheRequestStayAsTheyAre) {
  const absl::Status unknown = absl::NotFoundError("documents: none of 2 ids is known; ask /text/v1/rerank");
  EXPECT_EQ(ForClient(unknown), unknown);
  EXPECT_EQ(ForClient(absl::OkStatus()), absl::OkStatus());
}

TEST(HiddenFoldersTest, TheFolderOfAFileThatWasNotFoundIsHiddenWhateverTheCode) {
  const auto shown = [](const std::string& message) {
    const absl::Status status = ForClient(absl::NotFoundError(message));
    return std::string(status.message());
  };
  EXPECT_EQ(shown("cannot open /srv/secret/log.1: No such file or directory"),
            "cannot open log.1: No such file or directory");
  EXPECT_EQ(shown("collection c: cannot open folder /srv/my secret/c: Not a directory"),
            "collection c: cannot open folder c: Not a directory");
  EXPECT_EQ(shown("/a/b: No such file or directory; /c/d: No such file or directory; /e/f"),
            "b: No such file or directory; d: No such file or directory; /e/f");
  EXPECT_EQ(shown("x: No such file or directory"), "x: No such file or directory");
}

TEST(HiddenFoldersTest, ThePathThatTheClientSentIsShownToIt) {
  const std::string problem = "/data/my docs: No such file or directory";
  const absl::Status own = client::FieldError(absl::StatusCode::kNotFound, "INVALID_FIELD", "path", problem);
  EXPECT_EQ(ForClient(own), own);
  const absl::Status other = client::FieldError(absl::StatusCode::kNotFound, "INVALID_FIELD", "name", problem);
  EXPECT_EQ(ForClient(other).message(), "name: my docs: No such file or directory");
  const absl::Status of_server = client::FieldError(absl::StatusCode::kInternal, "INVALID_FIELD", "path", problem);
  EXPECT_EQ(ForClient(of_server).message().find("/data"), absl::string_view::npos);
}

TEST(HiddenFoldersTest, AnErrorKeepsItsCodeAndItsRetryHint) {
  absl::Status status = absl::UnavailableError("cannot write /srv/secret/log.1: No space left on device");
  client::SetRetryAfter(absl::Seconds(3), status);
  const absl::Status shown = ForClient(status);
  EXPECT_EQ(shown.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(shown.message(), "cannot write log.1: No space left on device");
  EXPECT_EQ(client::RetryAfter(shown), absl::Seconds(3));
}

TEST(HiddenFoldersTest, CollectionsHaveNoFolders) {
  v1::CollectionInfo info;
  info.set_path("/srv/secret/corpus");
  info.set_error("/srv/secret/corpus/manifest.json: is empty");
  info.mutable_live()->set_error("cannot write /srv/secret/corpus/log/1");
  HideFolders(info);
  EXPECT_EQ(info.path(), "");
  EXPECT_EQ(info.error(), "manifest.json: is empty");
  EXPECT_EQ(info.live().error(), "cannot write 1");
}

}  // namespace
}  // namespace maxsim::service
