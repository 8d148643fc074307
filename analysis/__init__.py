"""Statistics, tables, figures and the HTML report, made of runs and their timelines alone.

The modules, from numbers to pages:

- `statistics`: means with intervals over replications, and curves over time;
- `tables`: the summary for terminals, pipes, Markdown and HTML;
- `figures`: Plotly figures, usable in a notebook on their own;
- `report`: one HTML file that works offline.
"""
