#!/bin/sh
# Compiles Java sources with Debian's jars, so that nothing is downloaded. Warnings are errors.
#
#   javac.sh FOLDER SOURCE...      FOLDER: for the compiled classes
#   javac.sh --class-path          prints the jars
set -eu
jars=/usr/share/java
class_path=$jars/jackson-databind.jar:$jars/jackson-core.jar:$jars/jackson-annotations.jar:$jars/junit4.jar:$jars/hamcrest.jar
if [ "$1" = --class-path ]; then
  echo "$class_path"
  exit 0
fi
if ! [ -e $jars/jackson-databind.jar ] || ! [ -e $jars/junit4.jar ] || ! command -v javac >/dev/null; then
  echo "javac.sh: needs default-jdk-headless, libjackson2-databind-java and junit4: run scripts/setup.sh test" >&2
  exit 1
fi
folder=$1
shift
exec javac -J-XX:TieredStopAtLevel=1 --release 17 -encoding UTF-8 -Xlint:all -Xdoclint:all,-missing -Werror \
  -cp "$class_path" -d "$folder" "$@"
