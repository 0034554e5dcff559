# Everything below is the same for every plan: MaxText's own train_compile compiles the step for the slice that the
# arguments name, and no TPU is needed, only: pip install 'maxtext[tpu]' (0.2.5).
import argparse
import glob
import os
import re
import shutil
import signal
import sys
import tempfile
import time


def make_mesh():
    """MaxText makes its own, as its arguments say."""


class lower_step:
    def __init__(self, mesh):
        pass

    def compile(self):
        os.environ.setdefault('DECOUPLE_GCLOUD', 'TRUE')
        import maxtext
        from maxtext.trainers.pre_train import train_compile
        base = os.path.join(os.path.dirname(maxtext.__file__), 'configs', 'base.yml')
        train_compile.main(['train_compile', base, *PLAN['arguments']])


def run_there(options):
    sys.exit('--run: MaxText runs its own train; this file asks the compiler alone')


