"""What a run tells about itself: progress of each batch, a live line, a final report.

numbers               counters, progress, point, report, memory, watermark
who is told           listener, history, logs
shown while it runs   live, board, view
for people            notice, units, epochs, measured, markup
for programs          plain
"""
