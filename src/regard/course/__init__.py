"""A course of five lessons, each with an exercise that is judged.

The texts in ``lessons`` hold no number: every one is filled in from ``figures``, the same for both
languages.  ``exercise`` says what each exercise asks and which mistakes are known by name,
``judge`` runs the reader's file in a process of its own.
"""
