"""The package against the built program. Run from the root of the tree: python3 -m unittest discover python/tests."""
import contextlib
import copy
import io
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import meshwright as mw  # noqa: E402
from meshwright import _answers, _arguments  # noqa: E402

PLAN = str(ROOT / "examples" / "t5_11b_v4_512.json")
TINY = str(ROOT / "examples" / "tiny_local_4.json")


class Answers(unittest.TestCase):
    def test_a_plan_as_file_as_dictionary_and_as_names(self):
        plan = json.loads(pathlib.Path(PLAN).read_text(encoding="utf-8"))
        by_file, by_dictionary = mw.predict(PLAN), mw.predict(plan)
        by_names = mw.predict(model="t5_1_0_11B", topology="v4-512", model_parallel_submesh=(4, 2, 2, 1),
                              task_feature_lengths={"inputs": 512, "targets": 512}, batch_size=896, num_microbatches=4,
                              optimizer="adamw", compiler=plan["compiler"])
        self.assertEqual(by_file, by_dictionary)
        self.assertEqual(by_file["memory"], by_names["memory"])
        self.assertTrue(by_file.fits)
        self.assertAlmostEqual(by_file.tokens_per_s, 896 * 512 / by_file.step_s, places=3)

    def test_the_answer_is_the_programs(self):
        said = subprocess.run([mw.session().program, "predict", PLAN, "--json"], capture_output=True, check=True)
        self.assertEqual(json.loads(said.stdout), mw.predict(PLAN))

    def test_a_collective_by_itself(self):
        asked = dict(topology="v4:4x4x4", model_parallel_submesh=(4, 1, 1, 1), mesh_axis="model", bytes="8MiB")
        price, sent = mw.collective("all_reduce", **asked), mw.collective("all_reduce", **asked, network="simulated")
        self.assertTrue(price["analytic_is_exact"])
        self.assertIn("rings", price["analytic_basis"])
        self.assertAlmostEqual(price["time_s"] / sent["time_s"], 1, places=9)
        self.assertEqual(sent["algorithm"], "ring")
        with self.assertRaises(mw.MeshwrightError):
            mw.collective("all_reduced", **asked)

    def test_what_launches_a_plan(self):
        with tempfile.TemporaryDirectory() as folder:
            text = mw.export(PLAN, format="gin", path=os.path.join(folder, "plan.gin"))
            self.assertEqual(pathlib.Path(folder, "plan.gin").read_text(encoding="utf-8"), text)
            again = mw.predict(os.path.join(folder, "plan.gin"), topology="v4-512")
        self.assertEqual(again["memory"], mw.predict(PLAN)["memory"])

    def test_files_that_are_not_there_are_refused_like_all_else(self):
        chart = mw.plot("memory", PLAN)
        for ask in (lambda: mw.export(PLAN, format="gin", path="/nonexistent/plan.gin"),
                    lambda: chart.save("/nonexistent/plan.gin"), lambda: mw.sweep("/nonexistent/plan.gin")):
            with self.assertRaises(mw.InputError) as caught:
                ask()
            self.assertEqual(caught.exception.place, "/nonexistent/plan.gin")

    def test_the_compiler_is_asked_of_tpus_alone(self):
        with self.assertRaises(mw.InputError) as caught:
            mw.verify(TINY)
        self.assertIn("local:4", str(caught.exception))
        with self.assertRaises(mw.MeshwrightError) as caught:
            mw.verify(PLAN, python="/nonexistent/python")
        self.assertIn("python", str(caught.exception))

    def test_what_does_not_fit_is_an_answer(self):
        answer = mw.predict(PLAN, model_parallel_submesh=(2, 2, 2, 1))
        self.assertFalse(answer.fits)
        self.assertGreater(answer.peak_bytes, answer.capacity_bytes)
        self.assertTrue(answer["changes_that_fit"])

    def test_what_is_refused_says_where(self):
        with self.assertRaises(mw.InputError) as caught:
            mw.predict(PLAN, num_microbatches=5)
        self.assertEqual(caught.exception.exit, 3)
        self.assertIn("microbatches", str(caught.exception))
        with self.assertRaisesRegex(TypeError, r"predict\(\).*'batch_sise'; did you mean 'batch_size'"):
            mw.predict(PLAN, batch_sise=8)
        with self.assertRaises(mw.InputError) as caught:
            mw.predict("no_such_plan.json")
        self.assertEqual(caught.exception.place, "no_such_plan.json")
        with self.assertRaises(mw.InputError) as caught:
            mw.predict(PLAN, batch_size="many")
        self.assertEqual(caught.exception.place, "batch_size")
        self.assertTrue(mw.predict(PLAN).fits)  # the process still answers

    def test_tune_restricts_the_space_by_lists(self):
        search = mw.tune(model="t5_1_1_large", topology="v4:2x2x4", batch_size=64, task_feature_lengths=(512, 114),
                         num_microbatches=[1, 2], model_parallel_submesh=[(2, 1, 1, 1), (2, 2, 1, 1)])
        self.assertTrue(search.proven_optimal)
        self.assertIn(search.best["num_microbatches"], (None, 0, 1, 2))
        self.assertIn(search.best["model_parallel_submesh"], ([2, 1, 1, 1], [2, 2, 1, 1]))
        best = mw.predict(search.best)
        self.assertAlmostEqual(best.step_s, search.table()[0]["step_s"])

    def test_a_search_tells_how_far_it_is(self):
        asked = dict(model="t5_1_1_large", topology="v4:2x2x4", batch_size="auto", task_feature_lengths=(512, 114), no_bounds=True)
        told = []
        search = mw.tune(**asked, progress=told.append)
        self.assertEqual(search, mw.tune(**asked, progress=False))
        self.assertTrue(told)
        self.assertTrue(all(0 <= said["done"] <= said["total"] and said["best_tokens_per_s"] >= 0 for said in told))
        with self.assertRaisesRegex(KeyError, "enough"):
            mw.tune(**asked, progress=lambda said: (_ for _ in ()).throw(KeyError("enough")))
        with self.assertRaises(mw.InputError):
            mw.tune(model="t5_1_1_large", topology="v4-7", batch_size=8, progress=told.append)
        if _arguments.optional("tqdm.auto") is None:
            self.assertRaises(ImportError, mw.tune, **asked, progress=True)
        else:
            with contextlib.redirect_stderr(io.StringIO()) as shown:
                self.assertEqual(mw.tune(**asked, progress=True), search)
            self.assertIn("tokens/s", shown.getvalue())

    def test_a_sweep_keeps_rows_and_says_what_is_wrong_with_them(self):
        rows = [{"id": "a", "model": "t5_1_1_base", "topology": "v4-8", "inputs_length": 512, "targets_length": 114,
                 "batch_size": 8, "remark": "kept"},
                {"id": "b", "model": "t5_1_1_base", "topology": "v4-8", "targets_length": 114, "batch_size": 7,
                 "inputs_length": 512}]
        table = mw.sweep(rows)
        self.assertEqual(table[0]["remark"], "kept")
        self.assertEqual(table[0]["predicted_fits"], 1)
        self.assertIn("batch", table[1]["error"])
        self.assertIsNone(table[1]["predicted_step_s"])
        self.assertIn("<td>kept</td>", table._repr_html_())

    def test_a_sweep_of_a_file_is_the_commands(self):
        path = str(ROOT / "examples" / "tpu_v4_tuning.csv")
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "result.csv")
            subprocess.run([mw.session().program, "sweep", path, "--out", out], check=True, capture_output=True)
            expected = _arguments.csv_rows(out)
        for row, want in zip(mw.sweep(path), expected):
            self.assertEqual(row["error"], want["error"])
            if not want["error"]:
                self.assertEqual(row["predicted_step_s"], float(want["predicted_step_s"]))
                self.assertEqual(row["predicted_peak_memory_bytes"], int(want["predicted_peak_memory_bytes"]))

    def test_a_run_is_measured(self):
        answer = mw.run(TINY, steps=2)
        self.assertEqual(len(answer["loss"]), 2)
        self.assertEqual(answer.peak_bytes, mw.predict(TINY).peak_bytes)
        with self.assertRaises(mw.InputError):
            mw.run(TINY, steps=-1)

    def test_frames_and_figures_where_they_are_installed(self):
        table = mw.sweep([{"model": "t5_1_1_base", "topology": "v4-8", "targets_length": 8, "inputs_length": 8, "batch_size": 8}])
        if _arguments.optional("matplotlib.pyplot") is None:
            self.assertRaises(ImportError, table.plot)
        else:
            table.plot()
        for answer in (table, mw.predict(PLAN), mw.tune(model="t5_1_1_base", topology="v4-8", batch_size=8, task_feature_lengths=(8, 8))):
            frame = answer.frame()
            rows = frame if _arguments.optional("pandas") is None else frame.to_dict("records")
            self.assertTrue(any(isinstance(value, (int, float)) for value in rows[0].values()))
        self.assertEqual(mw.predict(PLAN)["time"]["step_s"], dict(_answers._flat(mw.predict(PLAN), ""))["time.step_s"])

    def test_an_answer_is_asked_again_with_a_key_changed(self):
        first = mw.predict(PLAN)
        self.assertEqual(mw.predict(first)["time"], first["time"])
        self.assertEqual(mw.predict(first, batch_size=448)["plan"], dict(first["plan"], batch_size=448))
        search = mw.tune(model="t5_1_1_base", topology="v4-8", batch_size=8, task_feature_lengths=(8, 8))
        self.assertEqual(mw.predict(search).step_s, search.table()[0]["step_s"])
        with self.assertRaises(mw.InputError):
            mw.predict(mw.collective("all_reduce", topology="v4:4x4x4", num_partitions=4, mesh_axis="model", bytes=8))

    def test_answers_pickle_copy_compare_and_print_as_a_line(self):
        for answer in (mw.predict(PLAN), mw.tune(model="t5_1_1_base", topology="v4-8", batch_size=8, task_feature_lengths=(8, 8)),
                       mw.mesh(topology="v4-8", num_partitions=2)):
            for again in (pickle.loads(pickle.dumps(answer)), copy.copy(answer), copy.deepcopy(answer)):
                self.assertEqual(again, answer)
                self.assertEqual((type(again), again.words), (type(answer), answer.words))
            self.assertNotIn("\n", repr(answer))
            self.assertLess(len(repr(answer)), 200)
        self.assertRegex(repr(mw.predict(PLAN)), r"^<t5_1_0_11B on v4-512: 1\.\d+ s a step, [\d,]+ tokens/s, .* GiB, (fits|tight)>$")
        self.assertTrue(pickle.loads(pickle.dumps(mw.predict(PLAN))).plot("memory").data)

    def test_signatures_are_those_of_the_tables(self):
        import inspect

        for function, command in ((mw.predict, "predict"), (mw.tune, "tune"), (mw.collective, "collective")):
            taken = inspect.signature(function).parameters
            for option in mw.ask(command, "--help", "--json")["options"]:
                name = option["name"][2:].replace("-", "_")
                self.assertEqual(name in taken, name not in ("json", "out", "help"), name)

    def test_what_is_known_by_name(self):
        self.assertIn("llama3_8b", [row["model"] for row in mw.models()])
        self.assertIn("v4-512", [row["accelerator_type"] for row in mw.topologies()])
        self.assertEqual(mw.rules(logical_axis_rules="zero3", axes="embed,mlp")["spec"], ["data", None])
        self.assertGreater(mw.params(model="t5_1_1_base")["parameter_count"], 2e8)


class Notebooks(unittest.TestCase):
    def test_answers_draw_themselves(self):
        page = mw.predict(PLAN)._repr_html_()
        self.assertIn("<iframe", page)
        self.assertIn("Memory over time", page)
        self.assertNotIn("<script>alert", page)

    def test_charts_are_svg(self):
        picture = mw.predict(PLAN).plot("memory")
        self.assertIn("Memory peaks at", picture.title)
        self.assertTrue(picture._repr_svg_().startswith("<?xml"))

    def test_the_example_runs(self):
        notebook = json.loads((ROOT / "python" / "example.ipynb").read_text(encoding="utf-8"))
        names, back = {}, os.getcwd()
        os.chdir(ROOT / "python")
        try:
            for number, cell in enumerate(c for c in notebook["cells"] if c["cell_type"] == "code"):
                with self.subTest(cell=number):
                    try:
                        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)  # pylint: disable=exec-used
                    except ImportError as missing:  # matplotlib, or pandas, is the notebook's alone
                        self.assertIn("is not installed", str(missing))
        finally:
            os.chdir(back)
        self.assertTrue(names["answer"].fits)


class Process(unittest.TestCase):
    def test_many_questions_go_through_one_process(self):
        with mw.Session() as session:
            words = ["predict", PLAN, "--batch-size"]
            questions = [[*words, str(16 * (i % 50 + 1))] for i in range(2000)]
            session.ask_many(questions[:50])
            begin = time.monotonic()
            answers = session.ask_many(questions)
            rate = len(questions) / (time.monotonic() - begin)
            self.assertEqual(len(answers), 2000)
            self.assertEqual(answers[0], answers[50])
            self.assertGreater(rate, 100)  # thousands on a quiet machine; this one is shared
            print(f"{rate:.0f} questions a second")

    def test_threads_get_their_own_answers(self):
        wrong = []

        def work(batch):
            for _ in range(5):
                if mw.predict(PLAN, batch_size=batch)["plan"]["batch_size"] != batch:
                    wrong.append(batch)

        threads = [threading.Thread(target=work, args=(16 * i,)) for i in range(1, 7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_process_that_dies_is_replaced(self):
        with mw.Session() as session:
            session.ask("predict", PLAN)
            session._idle[0].popen.kill()
            session._idle[0].popen.wait()
            self.assertTrue(session.ask("predict", PLAN).fits)


    def test_threads_ask_at_the_same_time_and_forked_processes_their_own(self):
        with mw.Session(processes=3) as session:
            meet = threading.Barrier(3, timeout=60)
            sizes, got = [512, 640, 768], {}

            def work(size):
                taken = session._take()
                meet.wait()  # all three are out at once
                session._idle.append(taken)
                got[size] = session.predict(PLAN, batch_size=size)["plan"]["batch_size"]

            threads = [threading.Thread(target=work, args=(size,)) for size in sizes]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(got, {size: size for size in sizes})
            self.assertEqual(len({process.popen.pid for process in session._idle}), 3)
            child = os.fork()
            if child == 0:
                os._exit(0 if session.predict(PLAN, batch_size=448).fits else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertTrue(session.predict(PLAN).fits)


class Package(unittest.TestCase):
    def test_the_version_is_the_programs(self):
        said = subprocess.run([mw.session().program, "--version"], capture_output=True, check=True, text=True).stdout
        self.assertIn(mw.__version__, said)
        self.assertIn(f'version = "{mw.__version__}"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    def test_types_are_strict(self):
        checker = [sys.executable, "-m", "mypy"] if _arguments.optional("mypy") else [shutil.which("mypy")]
        if not checker[0]:
            self.skipTest("mypy is not installed")
        with tempfile.TemporaryDirectory() as folder:
            wrong = pathlib.Path(folder, "wrong.py")
            wrong.write_text("import meshwright as mw\nmw.predict(batch_sise=8)\nmw.predict(optimizer='adamv')\n", encoding="utf-8")
            words = ["--strict", "--cache-dir", folder]
            found = subprocess.run([*checker, *words, str(ROOT / "python" / "meshwright")], capture_output=True, text=True, check=False)
            self.assertEqual(found.returncode, 0, found.stdout)
            found = subprocess.run([*checker, *words, str(wrong)], capture_output=True, text=True, check=False,
                                   env=dict(os.environ, MYPYPATH=str(ROOT / "python")))
            self.assertIn("Found 2 errors", found.stdout)

    def test_the_wheel_holds_package_program_and_record_and_answers_where_it_is_installed(self):
        import wheel_of_meshwright as backend

        settings = {"build": os.path.relpath(os.path.dirname(os.path.realpath(mw.session().program)), ROOT)}
        with tempfile.TemporaryDirectory() as folder:
            name = backend.build_wheel(folder, settings)
            path = pathlib.Path(folder, name)
            data = path.read_bytes()
            self.assertRegex(name, r"-py3-none-manylinux_2_\d+_\w+\.whl$")
            self.assertEqual(backend.build_wheel(folder, settings), name)
            self.assertEqual(path.read_bytes(), data)
            installed = pathlib.Path(folder, "installed")
            subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", installed,
                            path], check=True, capture_output=True)
            environment = {key: value for key, value in os.environ.items() if key != "MESHWRIGHT"}
            said = subprocess.run([sys.executable, "-c", "import sys, meshwright as mw; print(mw.session().program, "
                                   "mw.predict(sys.argv[1]).fits, len(mw.run(sys.argv[2], steps=1)['loss']))", PLAN, TINY], cwd=folder, check=True, capture_output=True, text=True,
                                  env=dict(environment, PYTHONPATH=str(installed))).stdout
        self.assertEqual(said.split(), [str(installed / "meshwright" / "bin" / "meshwright"), "True", "1"])
        with zipfile.ZipFile(io.BytesIO(data)) as wheel:
            names = wheel.namelist()
            record = wheel.read(names[-1]).decode()
        self.assertIn("meshwright/py.typed", names)
        self.assertEqual(len(record.splitlines()), len(names))

    def test_the_notebook_runs_from_top_to_end(self):
        import ast

        cells = json.loads((ROOT / "python" / "example.ipynb").read_text(encoding="utf-8"))["cells"]
        names, before = {}, os.getcwd()
        os.chdir(ROOT / "python")
        try:
            for cell in (c for c in cells if c["cell_type"] == "code"):
                tree = ast.parse("".join(cell["source"]))
                last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
                try:
                    with contextlib.redirect_stdout(io.StringIO()):
                        exec(compile(tree, "cell", "exec"), names)
                        shown = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
                except ImportError:
                    self.assertIsNone(_arguments.optional("matplotlib.pyplot"))
                    continue
                for way in ("_repr_html_", "_repr_svg_"):
                    if hasattr(shown, way):
                        self.assertTrue(getattr(shown, way)())
        finally:
            os.chdir(before)
        self.assertEqual(len(names["measured"]["loss"]), 2)
        self.assertEqual(len(names["rows"]), 5)

    def test_everything_public_has_words_and_types(self):
        import inspect

        for name in mw.__all__:
            thing = getattr(mw, name)
            self.assertTrue(inspect.getdoc(thing), name)
            if inspect.isfunction(thing):
                self.assertIsNot(inspect.signature(thing).return_annotation, inspect.Signature.empty, name)


if __name__ == "__main__":
    unittest.main()
