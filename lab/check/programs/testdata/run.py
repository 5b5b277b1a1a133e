# Runs rdma-core's own tests of pyverbs and prints a line for each: outcome and
# name. Usage: run.py DIRECTORY DEVICE [MODULE...], with the tests in DIRECTORY/tests.
import importlib
import os
import sys
import unittest

directory, device, *modules = sys.argv[1:]
tests = os.path.join(directory, 'tests')
sys.path[:0] = [directory, tests]
sys.argv[1:] = ['--dev', device]
import args_parser
args_parser.parser.parse_args()
sys.modules['tests.args_parser'] = args_parser
names = modules or sorted(f[:-3] for f in os.listdir(tests) if f.startswith('test_') and f.endswith('.py'))
foreign = ('test_mlx5', 'test_efa', 'test_cuda')  # other makers' devices
names = [n for n in names if not n.startswith(foreign)]


class Lines(unittest.TestResult):
    def outcome(self, test, what):
        print(what, test.id().removeprefix('tests.'), flush=True)

    def addSuccess(self, test):
        self.outcome(test, 'ok')

    def addSkip(self, test, reason):
        self.outcome(test, 'skipped')
        print('  ', reason, flush=True)

    def addError(self, test, err):
        self.outcome(test, 'error')
        print('  ', repr(err[1]), flush=True)

    addFailure = addError


suite = unittest.TestSuite()
for n in names:
    suite.addTests(unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module('tests.' + n)))
suite.run(Lines())
