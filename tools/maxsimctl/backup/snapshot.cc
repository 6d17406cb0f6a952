#include <memory>
#include <string>

#include "backup/store_url.h"
#include "base/text.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/backup/backup.h"
#include "tools/maxsimctl/backup/commands.h"
#include "tools/maxsimctl/context/collection_view.h"

namespace maxsim::ctl {
namespace {

absl::Status RunSnapshot(const std::string& name, const std::string& path, Context& context) {
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  v1::SnapshotCollectionRequest request;
  request.set_name(name);
  request.set_path(path);
  const absl::StatusOr<v1::SnapshotCollectionResponse> response = (*client)->SnapshotCollection(request);
  if (!response.ok()) return NameAllowedRoots(context.AddAdminAdvice(response.status()));
  if (context.options.json) {
    context.Print({{"collection", name}, {"path", path}, {"sequence", response->sequence()}});
  } else {
    context.out() << command_line::WithoutControls(
                         Cat("copied ", name, " to ", path, ", with writes up to sequence ", response->sequence()))
                  << '\n';
  }
  return absl::OkStatus();
}

void CheckBackupUsage(const BackupOptions& options) {
  if (backup::IsUrl(options.url)) return;
  if (options.is_cluster) throw CLI::ValidationError("--cluster", "needs a URL: s3://BUCKET/PREFIX or file:///FOLDER");
  if (!options.group_token_file.empty()) throw CLI::ValidationError("--group-token-file", "needs --cluster");
}

}  // namespace

void AddSnapshot(CLI::App& app, Context& context) {
  auto options = std::make_shared<BackupOptions>();
  CLI::App* command = app.add_subcommand(
      "snapshot", "Copy a live collection as it is now: to another folder of the server, or to object storage");
  command->add_option("name", options->name, "Collection")->required()->type_name("NAME");
  command
      ->add_option(
          "target", options->url,
          "Folder on the server's machine that is not there yet, under a root that it allows; or the URL of a\n"
          "backup: s3://BUCKET/PREFIX, or file:///FOLDER on the machine of maxsimctl. The prefix must be new")
      ->required()
      ->type_name("PATH|URL");
  CLI::Option* cluster =
      command->add_flag("--cluster", options->is_cluster,
                        "With a URL: --server is a router, and the backup has all slots of the collection");
  command
      ->add_option("--group-token-file", options->group_token_file,
                   "File whose first token is sent to the servers of the groups; that of --token-file by default")
      ->needs(cluster)
      ->type_name("FILE");
  command->footer(
      "A copy in a folder opens as a collection of its own. Of a backup, 'maxsim-shard restore' makes any number of\n"
      "partitions. A backup needs live.log: nats. maxsimctl reads it from the servers (with --cluster, from one of "
      "each\n"
      "group) and writes its objects; the last one, manifest.json, makes it complete.\n\n"
      "For s3:// URLs the environment has AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and may have "
      "AWS_SESSION_TOKEN,\n"
      "AWS_REGION (us-east-1 by default), AWS_ENDPOINT_URL (of a store other than AWS) and AWS_CA_BUNDLE.\n\n"
      "Examples:\n"
      "  maxsimctl snapshot notes /var/lib/maxsim/copies/notes-monday\n"
      "  maxsimctl --server router:7070 snapshot notes s3://backups/notes/monday --cluster");
  command->callback([options, &context] {
    CheckBackupUsage(*options);
    context.result =
        backup::IsUrl(options->url) ? RunBackup(*options, context) : RunSnapshot(options->name, options->url, context);
  });
}

}  // namespace maxsim::ctl
