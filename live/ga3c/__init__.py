"""GA3C: agents, a predictor and a trainer around one copy of the network.

Babaeizadeh, Frosio, Tyree, Clemons and Kautz, "Reinforcement Learning through Asynchronous
Advantage Actor-Critic on a GPU", ICLR 2017. Here the three take turns in one thread.
"""
