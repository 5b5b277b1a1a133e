"""Tests of pingpong.py on two NICs of tapir: python3 -m unittest -v

TAPIR names the program tapir (default: that of PATH).
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TAPIR = os.environ.get("TAPIR", "tapir")
HERE = pathlib.Path(__file__).parent


class PingPong(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory()  # of the sockets: nobody else's NICs are found
        cls.env = dict(os.environ, XDG_RUNTIME_DIR=cls.dir.name)
        cls.nics = subprocess.Popen([TAPIR, "nic", "-c", HERE / "nics.yaml"], env=cls.env)
        subprocess.run([TAPIR, "wait", "a", "b"], env=cls.env, check=True)

    @classmethod
    def tearDownClass(cls):
        cls.nics.terminate()
        cls.nics.wait()
        cls.dir.cleanup()

    def on(self, nic, *argv):
        """Returns the command that runs pingpong.py on a NIC."""
        return [TAPIR, "run", "--nic", nic, "--", sys.executable, str(HERE / "pingpong.py"), *argv]

    def test_answers(self):
        server = subprocess.Popen(self.on("a", "serve", "10.0.0.1"), env=self.env)
        self.addCleanup(server.kill)
        while "7471" not in subprocess.check_output([TAPIR, "show", "a", "cep"], env=self.env, text=True):
            self.assertIsNone(server.poll(), "the server has ended")
        out = subprocess.check_output(self.on("b", "ask", "10.0.0.1", "hello", "world"), env=self.env, text=True, timeout=60)
        self.assertEqual(out, "HELLO\nWORLD\n")
        self.assertEqual(server.wait(timeout=60), 0)

    def test_nobody_listens(self):
        client = subprocess.run(self.on("b", "ask", "10.0.0.1", "hello"), env=self.env, text=True, capture_output=True,
                                timeout=60)
        self.assertNotEqual(client.returncode, 0)
        self.assertIn("rdma", client.stderr.lower())


if __name__ == "__main__":
    unittest.main()
