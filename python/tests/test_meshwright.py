"""The package against the built program. Run from the root of the tree: python3 -m unittest discover python/tests."""
import io
import json
import os
import pathlib
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
from meshwright import _arguments  # noqa: E402

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
        with self.assertRaises(mw.UsageError):
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
        for module, use in (("pandas", table.frame), ("matplotlib.pyplot", table.plot)):
            if _arguments.optional(module) is None:
                self.assertRaises(ImportError, use)
            else:
                use()


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
                    exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)  # pylint: disable=exec-used
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
            session._process.kill()
            session._process.wait()
            self.assertTrue(session.ask("predict", PLAN).fits)


class Package(unittest.TestCase):
    def test_the_wheel_holds_the_package_and_its_record(self):
        sys.path.insert(0, str(ROOT / "python"))
        import wheel_of_meshwright as backend

        with tempfile.TemporaryDirectory() as folder:
            name = backend.build_wheel(folder)
            data = pathlib.Path(folder, name).read_bytes()
            self.assertEqual(backend.build_wheel(folder), name)
            self.assertEqual(pathlib.Path(folder, name).read_bytes(), data)
        with zipfile.ZipFile(io.BytesIO(data)) as wheel:
            names = wheel.namelist()
            record = wheel.read(names[-1]).decode()
        self.assertIn("meshwright/py.typed", names)
        self.assertEqual(len(record.splitlines()), len(names))

    def test_everything_public_has_words_and_types(self):
        import inspect

        for name in mw.__all__:
            thing = getattr(mw, name)
            self.assertTrue(inspect.getdoc(thing), name)
            if inspect.isfunction(thing):
                self.assertIsNot(inspect.signature(thing).return_annotation, inspect.Signature.empty, name)


if __name__ == "__main__":
    unittest.main()
