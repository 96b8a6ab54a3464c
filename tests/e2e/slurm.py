# SPDX-License-Identifier: Apache-2.0
"""A Slurm of one node on the loopback interface, in a folder of its own, started and stopped by the test.

Jobs are tracked with Slurm's cgroup plugin, as clusters do: on a v1 or hybrid host the job and step are then in the path
of the memory and freezer hierarchies, on a unified host in that of the only one.
"""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import time

from e2e import engines
from harness import cgroup
from harness.port import free_port

CONFIG = """
ClusterName=tracertest
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={control_port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/completions
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=1000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=10 State=UP
"""

CGROUP_V1 = """
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
ConstrainRAMSpace=yes
"""

CGROUP_V2 = """
CgroupPlugin=cgroup/v2
IgnoreSystemd=yes
ConstrainRAMSpace=yes
"""


class Slurm:
    def __init__(self, folder):
        engines.debian("munge", "slurmctld", "slurmd", "slurm-client")
        self.folder = pathlib.Path(folder)
        self.host = platform.node().split(".")[0]
        self.servers = []
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        (self.folder / "slurm.conf").write_text(CONFIG.format(
            folder=self.folder, host=self.host, control_port=free_port(), node_port=free_port(), cpus=os.cpu_count()))
        self.unified = cgroup.hierarchy("memory")[1]
        (self.folder / "cgroup.conf").write_text(CGROUP_V2 if self.unified else CGROUP_V1)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)

    def __enter__(self):
        folder = self.folder
        try:
            self.serve("munged", "-F", "--force", f"--key-file={folder}/munge.key", f"--socket={folder}/munge.socket",
                       f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log",
                       f"--seed-file={folder}/munge.seed", "--num-threads=1")
            self.wait_for(lambda: (folder / "munge.socket").exists(), "munged has no socket")
            self.serve("slurmctld", "-D", "-c")
            self.serve("slurmd", "-D", "-N", self.host)
            self.wait_for(lambda: "idle" in self.client("sinfo", "-h", "-o", "%T"), "the node does not get idle")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def serve(self, program, *arguments):
        path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")
        with open(self.folder / f"{program}.out", "wb") as out:
            self.servers.append(subprocess.Popen([path, *arguments], env=self.environment, stdin=subprocess.DEVNULL,
                                                 stdout=out, stderr=subprocess.STDOUT, cwd=self.folder))

    def client(self, *command):
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, timeout=30)
        return done.stdout

    def wait_for(self, condition, problem):
        end = time.monotonic() + 30
        while not condition():
            logs = [path for path in self.folder.glob("*.out")] + [path for path in self.folder.glob("*.log")]
            assert time.monotonic() < end, problem + "\n" + "\n".join(
                f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in logs)
            time.sleep(0.1)

    def stop(self):
        for server in reversed(self.servers):
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
        self.servers = []
        self.remove_cgroups()

    def remove_cgroups(self):
        """slurmd leaves its own empty folders behind."""
        for _, mount, _ in cgroup._mounts():
            for top in (mount / f"slurm_{self.host}", mount / "system.slice" / f"{self.host}_slurmstepd.scope",
                        mount / "system.slice" / "slurmstepd.scope"):
                for folder, _, _ in os.walk(top, topdown=False):
                    try:
                        os.rmdir(folder)
                    except OSError:
                        pass

    def completions(self):
        """Slurm's own account: one dictionary for each job that ended."""
        path = self.folder / "completions"
        lines = path.read_text().splitlines() if path.exists() else []
        return [dict(re.findall(r"(\w+)=(\S*)", line)) for line in lines]
