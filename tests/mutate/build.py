"""A build of its own, in which each layer is a shared library: a mutant is one compilation and one link."""
import fnmatch
import json
import os
import shlex
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# As it is released, so that what the optimiser finds to be the same is no mutant. Warnings are errors there as well.
OPTIONS = ["-DCMAKE_BUILD_TYPE=Release", "-DTF_HAS_fvisibility_hidden=OFF", "-DCMAKE_SKIP_RPATH=ON",
           f"-DCMAKE_PROJECT_INCLUDE={HERE}/shared.cmake"]


def output(*command):
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"{' '.join(command)}:\n{run.stdout[-3000:]}{run.stderr[-3000:]}")
    return run.stdout


class Build:
    """names: patterns of the programs that are wanted."""

    def __init__(self, folder, jobs, names):
        self.folder = os.path.abspath(folder)
        output("cmake", "-S", ROOT, "-B", self.folder, "-G", "Ninja", *OPTIONS)
        with open(os.path.join(self.folder, "compile_commands.json"), encoding="utf-8") as file:
            self.compilations = {entry["file"]: entry for entry in json.load(file)}
        targets = output("ninja", "-C", self.folder, "-t", "targets", "all").splitlines()
        self.libraries = [line.split(":")[0] for line in targets if ".so: C_SHARED" in line]
        self.folders = [os.path.join(self.folder, os.path.dirname(library)) for library in self.libraries]
        programs = [line.split(":")[0] for line in targets if ": C_EXECUTABLE" in line]
        wanted = [path for path in programs if any(fnmatch.fnmatch(os.path.basename(path), name) for name in names)]
        output("ninja", "-C", self.folder, "-j", str(jobs), *wanted)
        listed = json.loads(output("ctest", "--test-dir", self.folder, "--show-only=json-v1"))
        self.tests = {test["name"]: test["command"] for test in listed["tests"] if "command" in test}

    def object_of(self, path):
        entry = self.compilations[os.path.join(ROOT, path)]
        words = shlex.split(entry["command"])
        return os.path.relpath(os.path.join(entry["directory"], words[words.index("-o") + 1]), self.folder)

    def compiler(self, path, source, target):
        """The command that compiles source in the place of path."""
        words = shlex.split(self.compilations[os.path.join(ROOT, path)]["command"])
        while "ccache" in os.path.basename(words[0]):
            words = words[1:]
        words = words[:words.index("-o")]
        return [*words, f"-fmacro-prefix-map={source.removesuffix(path)}={ROOT}/", "-o", target, "-c", source]

    def linker(self, path, replaced, folder):
        """The command that links the library with the object of path, with replaced in its place, into folder."""
        wanted = self.object_of(path)
        for library in self.libraries:
            last = output("ninja", "-C", self.folder, "-t", "commands", library).splitlines()[-1]
            words = shlex.split(last.split(" && ")[1])
            if wanted in words:
                words[words.index(wanted)] = replaced
                words[words.index("-o") + 1] = os.path.join(folder, os.path.basename(library))
                return words
        raise SystemExit(f"{path}: in no library")

    def environment(self, *before):
        return {**os.environ, "LD_LIBRARY_PATH": ":".join([*before, *self.folders]), "CK_FORK": "no",
                "CK_DEFAULT_TIMEOUT": "0"}
